-- An author's posts, newest first: [[id, pubkey, job, crosspost], …].
SELECT json_group_array(json_array(id, lower(hex(pubkey)), job, crosspost)) FROM (
  SELECT id, pubkey, job, crosspost FROM posts
  WHERE pubkey = unhex(:pubkey) AND job < coalesce(:before, 9223372036854775807)
  ORDER BY job DESC LIMIT :limit);
