-- Open jobs that nobody would ever look at again, whatever left them so: they are due now.
UPDATE jobs SET stage_at = greatest(coalesce(due_at, 0), :now::bigint)
WHERE finished_at IS NULL AND stage_at IS NULL
  AND state IN ('scheduled', 'signed-pending-publish')
  AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.job = jobs.id AND d.state = 'waiting')
  AND NOT EXISTS (SELECT 1 FROM dependencies AS n WHERE n.job = jobs.id);
