-- Series by their names, after one: everybody's.
SELECT json_group_array(json_array(lower(hex(pubkey)), id, recurrence, zone, template, terms,
  starts_at, kept_at, until, count, missed, state, made, passed, next_at, last_at, revision))
FROM (SELECT * FROM series WHERE id > :after
  ORDER BY id LIMIT :limit);
