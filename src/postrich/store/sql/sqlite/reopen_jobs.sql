-- New destinations were added to these jobs.
UPDATE jobs SET finished_at = NULL,
  state = CASE WHEN state IN ('failed', 'parked') THEN 'signed-pending-publish' ELSE state END
WHERE id IN (SELECT value FROM json_each(:jobs))
  AND EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id AND state = 'waiting');
