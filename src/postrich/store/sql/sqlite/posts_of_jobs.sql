-- The posts that jobs belong to: [[id, pubkey, job, crosspost], …].
SELECT json_group_array(json_array(id, lower(hex(pubkey)), job, crosspost))
FROM posts WHERE job IN (SELECT value FROM json_each(:jobs));
