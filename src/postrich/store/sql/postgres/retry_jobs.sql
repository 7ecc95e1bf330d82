-- Back on the road: to the signer where it is unsigned, else to the stager or the lanes.
UPDATE jobs SET
  state = CASE WHEN state = 'published' THEN state WHEN signed = 0 THEN 'pending-sign'
    ELSE 'signed-pending-publish' END,
  stage_at = CASE WHEN signed = 0 OR route = 'auto' OR (targets IS NOT NULL
    AND (SELECT count(*) FROM deliveries WHERE job = jobs.id) = 0) THEN :now::bigint END,
  sign_attempts = CASE WHEN :resets::integer = 1 THEN 0 ELSE sign_attempts END,
  expires_at = greatest(expires_at, :expires_at::bigint),
  finished_at = CASE WHEN state <> 'published' OR route = 'auto' OR (
    SELECT count(*) FROM deliveries WHERE job = jobs.id AND state = 'waiting') > 0 THEN NULL
    ELSE finished_at END,
  error_code = NULL, error_text = NULL
WHERE id = ANY(:jobs::bigint[]);
