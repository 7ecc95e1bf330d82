-- A draft was signed: from now on these bytes are the event. It stays where the stager sees it.
UPDATE jobs SET signed = 1, state = :state, stage_at = :stage_at, size = :size,
  finished_at = NULL, expires_at = max(expires_at, :expires_at),
  error_code = NULL, error_text = NULL
WHERE id = :job AND signed = 0;
