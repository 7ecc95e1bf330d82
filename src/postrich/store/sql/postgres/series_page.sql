-- Series by their names, after one: everybody's.
SELECT encode(pubkey, 'hex'), id, recurrence, zone, template, terms, starts_at,
  kept_at, until, count, missed, state, made, passed, next_at, last_at, revision
FROM series
WHERE id > :after::text
ORDER BY id LIMIT :limit::bigint;
