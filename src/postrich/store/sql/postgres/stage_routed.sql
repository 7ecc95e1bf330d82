-- Due and signed jobs go to the lanes. Rows: [job, when to route again or null].
UPDATE jobs SET stage_at = e.again_at, error_code = NULL, error_text = NULL,
  route_attempts = CASE WHEN e.again_at IS NULL THEN 0 ELSE route_attempts + 1 END,
  state = CASE state WHEN 'published' THEN state ELSE 'signed-pending-publish' END
FROM unnest(:rows.0::bigint[], :rows.1::bigint[]) AS e (job, again_at)
WHERE jobs.id = e.job AND stage_at IS NOT NULL
  AND state IN ('scheduled', 'signed-pending-publish', 'published');
