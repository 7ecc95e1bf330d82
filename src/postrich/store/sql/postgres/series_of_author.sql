-- Series of one author by their names, after one.
SELECT encode(pubkey, 'hex'), id, recurrence, zone, template, terms, starts_at,
  kept_at, until, count, missed, state, made, passed, next_at, last_at, revision
FROM series
WHERE id > :after::text AND pubkey = decode(:pubkey, 'hex')
ORDER BY id LIMIT :limit::bigint;
