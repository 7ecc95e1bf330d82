-- Open jobs that nobody would ever look at again, whatever left them so: they are due now.
UPDATE jobs SET stage_at = max(coalesce(due_at, 0), :now)
WHERE finished_at IS NULL AND stage_at IS NULL
  AND state IN ('scheduled', 'signed-pending-publish')
  AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id AND state = 'waiting')
  AND NOT EXISTS (SELECT 1 FROM dependencies WHERE job = jobs.id);
