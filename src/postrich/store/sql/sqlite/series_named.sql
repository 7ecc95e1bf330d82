-- The series of that name, in full: [[pubkey, id, …]].
SELECT json_group_array(json_array(lower(hex(pubkey)), id, recurrence, zone, template, terms,
  starts_at, kept_at, until, count, missed, state, made, passed, next_at, last_at, revision))
FROM series WHERE id = :id;
