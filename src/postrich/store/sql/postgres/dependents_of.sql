-- Jobs that wait for one of :jobs.
SELECT id FROM jobs
WHERE id = ANY(ARRAY(SELECT job FROM dependencies WHERE needs = ANY(:jobs::bigint[])))
  AND finished_at IS NULL AND state IN ('scheduled', 'signed-pending-publish', 'pending-sign')
  AND targets IS NOT NULL
ORDER BY id FOR UPDATE;
