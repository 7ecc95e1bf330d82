-- Everybody's posts of one name: [id, pubkey, job, crosspost].
SELECT id, encode(pubkey, 'hex'), job, crosspost FROM posts WHERE id = :id::text ORDER BY pubkey;
