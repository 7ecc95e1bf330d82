-- New destinations were added to these jobs: they live for as long as the new ones need.
UPDATE jobs SET finished_at = NULL, expires_at = max(expires_at, :expires_at),
  state = CASE WHEN state IN ('failed', 'parked') THEN 'signed-pending-publish' ELSE state END
WHERE id IN (SELECT value FROM json_each(:jobs))
  AND EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id AND state = 'waiting');
