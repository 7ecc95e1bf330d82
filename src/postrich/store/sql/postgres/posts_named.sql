-- Posts by the names their callers gave: keys [id, pubkey] → [id, pubkey, job, crosspost].
SELECT p.id, encode(p.pubkey, 'hex'), p.job, p.crosspost
FROM unnest(:keys.0::text[], :keys.1::text[]) AS e (id, pubkey)
JOIN posts AS p ON p.id = e.id AND p.pubkey = decode(e.pubkey, 'hex');
