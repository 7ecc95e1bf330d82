-- The posts that jobs belong to: [id, pubkey, job, crosspost].
SELECT id, encode(pubkey, 'hex'), job, crosspost FROM posts WHERE job = ANY(:jobs::bigint[]);
