-- A series goes on, rests or ends; what it is stays as it was.
UPDATE series SET state = :state, made = :made, passed = :passed, next_at = :next_at,
  last_at = :last_at, revision = revision + 1 WHERE id = :id;
