-- Jobs that never got as far as a relay.
UPDATE jobs SET state = 'failed', finished_at = :now, stage_at = NULL,
  error_text = 'lifetime over' || CASE WHEN error_text IS NULL THEN '' ELSE '; last: ' || error_text END,
  error_code = 'EXPIRED'
WHERE id IN (SELECT value FROM json_each(:jobs)) AND finished_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id);
