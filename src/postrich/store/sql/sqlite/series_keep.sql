-- Keep a new series; one that has its name already stays as it is.
INSERT INTO series (id, pubkey, recurrence, zone, template, terms, starts_at, kept_at, until, count,
  missed, state, made, passed, next_at, last_at, revision)
VALUES (:id, unhex(:pubkey), :recurrence, :zone, :template, :terms, :starts_at, :kept_at, :until,
  :count, :missed, :state, :made, :passed, :next_at, :last_at, :revision)
ON CONFLICT (id) DO NOTHING;
