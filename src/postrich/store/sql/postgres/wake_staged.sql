-- The stager shall look at these jobs now, unless their own hour is later or they are routed.
UPDATE jobs SET stage_at = greatest(:now::bigint, coalesce(due_at, 0))
WHERE id = ANY(:jobs::bigint[]) AND finished_at IS NULL AND targets IS NOT NULL
  AND state IN ('scheduled', 'signed-pending-publish')
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id);
