-- Deliveries of the account's jobs that wait for somebody to sign an AUTH: [[job, destination], …].
SELECT json_group_array(json_array(d.job, d.destination))
FROM deliveries AS d CROSS JOIN jobs AS j ON j.id = d.job
WHERE d.code = 'signer' AND d.state IN ('waiting', 'parked') AND j.pubkey = unhex(:pubkey);
