-- Posts by the names their callers gave: keys [id, pubkey] → [[id, pubkey, job, crosspost], …].
SELECT json_group_array(json_array(p.id, lower(hex(p.pubkey)), p.job, p.crosspost))
FROM json_each(:keys) JOIN posts AS p ON p.id = value ->> 0 AND p.pubkey = unhex(value ->> 1);
