-- Back on the road: to the signer where it is unsigned, else to the stager or the lanes.
UPDATE jobs SET
  state = CASE WHEN state = 'published' THEN state WHEN signed = 0 THEN 'pending-sign'
    ELSE 'signed-pending-publish' END,
  stage_at = CASE WHEN signed = 0 OR route = 'auto' OR (targets IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id)) THEN :now END,
  sign_attempts = CASE WHEN :resets THEN 0 ELSE sign_attempts END,
  expires_at = max(expires_at, :expires_at),
  finished_at = CASE WHEN state <> 'published' OR route = 'auto' OR EXISTS (
    SELECT 1 FROM deliveries WHERE job = jobs.id AND state = 'waiting') THEN NULL
    ELSE finished_at END,
  error_code = NULL, error_text = NULL
WHERE id IN (SELECT value FROM json_each(:jobs));
