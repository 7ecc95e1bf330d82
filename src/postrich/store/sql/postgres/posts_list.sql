-- An author's posts, newest first: [id, pubkey, job, crosspost].
SELECT id, encode(pubkey, 'hex'), job, crosspost FROM posts
WHERE pubkey = decode(:pubkey::text, 'hex') AND job < coalesce(:before::bigint, 9223372036854775807)
ORDER BY job DESC LIMIT :limit::bigint;
