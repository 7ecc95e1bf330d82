-- Nowhere to go yet: look again at :next_at, or wait for a person. Not for jobs that went
-- somewhere before.
UPDATE jobs SET stage_at = :next_at::bigint, route_attempts = route_attempts + 1,
  error_code = :code::text, error_text = :text::text,
  state = CASE WHEN :next_at IS NULL THEN 'parked' ELSE 'signed-pending-publish' END,
  finished_at = CASE WHEN :next_at IS NULL THEN :now::bigint END
WHERE id = :job::bigint AND state IN ('scheduled', 'signed-pending-publish')
  AND stage_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id);
