-- Everybody's posts of one name: [[id, pubkey, job, crosspost], …].
SELECT json_group_array(json_array(id, lower(hex(pubkey)), job, crosspost))
FROM posts WHERE id = :id;
