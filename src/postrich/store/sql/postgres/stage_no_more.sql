-- Nowhere else to go for a job that went somewhere before: look again at :next_at, or that is all.
UPDATE jobs SET stage_at = :next_at::bigint, route_attempts = route_attempts + 1
WHERE id = :job::bigint AND state IN ('signed-pending-publish', 'published')
  AND stage_at IS NOT NULL;
