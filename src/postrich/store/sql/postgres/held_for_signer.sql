-- Deliveries of the account's jobs that wait for somebody to sign an AUTH: [job, destination].
SELECT d.job, d.destination FROM jobs AS j JOIN deliveries AS d ON d.job = j.id
WHERE j.id = ANY(ARRAY(SELECT job FROM deliveries WHERE code = 'signer'))
  AND d.code = 'signer' AND d.state IN ('waiting', 'parked') AND j.pubkey = decode(:pubkey, 'hex')
ORDER BY j.id FOR UPDATE OF j;
