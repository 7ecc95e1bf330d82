-- Series whose next occurrence is to be made, the earliest first.
SELECT encode(pubkey, 'hex'), id, recurrence, zone, template, terms, starts_at,
  kept_at, until, count, missed, state, made, passed, next_at, last_at, revision
FROM series WHERE state = 'active' AND next_at IS NOT NULL AND next_at <= :until::bigint
ORDER BY next_at, id LIMIT :limit::bigint;
