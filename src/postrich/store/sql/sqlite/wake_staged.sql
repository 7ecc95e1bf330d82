-- The stager shall look at these jobs now, unless their own hour is later or they are routed.
UPDATE jobs SET stage_at = max(:now, coalesce(due_at, 0))
WHERE id IN (SELECT value FROM json_each(:jobs)) AND finished_at IS NULL AND targets IS NOT NULL
  AND state IN ('scheduled', 'signed-pending-publish')
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id);
