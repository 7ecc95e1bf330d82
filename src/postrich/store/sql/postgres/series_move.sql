-- A series goes on, rests or ends; what it is stays as it was.
UPDATE series SET state = :state::text, made = :made::bigint, passed = :passed::bigint,
  next_at = :next_at::bigint, last_at = :last_at::bigint, revision = revision + 1
WHERE id = :id::text;
