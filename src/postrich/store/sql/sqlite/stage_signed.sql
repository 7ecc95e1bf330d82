-- A draft was signed: from now on these bytes are the event. It stays where the stager sees it.
UPDATE jobs SET signed = 1, state = :state, stage_at = :stage_at, size = :size,
  error_code = NULL, error_text = NULL
WHERE id = :job AND state = 'pending-sign';
