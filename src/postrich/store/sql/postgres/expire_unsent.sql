-- Jobs that never got as far as a relay.
UPDATE jobs SET state = 'failed', finished_at = :now::bigint, stage_at = NULL,
  error_text = 'lifetime over' || CASE WHEN error_text IS NULL THEN '' ELSE '; last: ' || error_text END,
  error_code = 'EXPIRED'
WHERE id = ANY(:jobs::bigint[]) AND finished_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id);
