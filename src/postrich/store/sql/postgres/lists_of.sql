-- What is known of people's lists. Keys: [pubkey, kind] → [pubkey, kind, looked_at, body].
SELECT encode(l.pubkey, 'hex'), l.kind, l.looked_at, l.body
FROM unnest(:keys.0::text[], :keys.1::integer[]) AS e (pubkey, kind)
JOIN lists AS l ON l.pubkey = decode(e.pubkey, 'hex') AND l.kind = e.kind;
