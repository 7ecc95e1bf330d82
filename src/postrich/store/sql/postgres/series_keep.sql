-- Keep a new series; one that has its name already stays as it is.
INSERT INTO series (id, pubkey, recurrence, zone, template, terms, starts_at, kept_at, until, count,
  missed, state, made, passed, next_at, last_at, revision)
VALUES (:id::text, decode(:pubkey::text, 'hex'), :recurrence::text, :zone::text, :template::text,
  :terms::text, :starts_at::bigint, :kept_at::bigint, :until::bigint, :count::bigint,
  :missed::text, :state::text, :made::bigint, :passed::bigint, :next_at::bigint,
  :last_at::bigint, :revision::bigint)
ON CONFLICT (id) DO NOTHING;
