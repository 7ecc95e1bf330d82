-- A draft was signed: from now on these bytes are the event. It stays where the stager sees it.
UPDATE jobs SET signed = 1, state = :state::text, stage_at = :stage_at::bigint,
  size = :size::integer, finished_at = NULL, expires_at = greatest(expires_at, :expires_at::bigint),
  error_code = NULL, error_text = NULL
WHERE id = :job::bigint AND signed = 0;
