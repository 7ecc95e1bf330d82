-- Due and signed jobs go to the lanes. Rows: [job, when to route again or null].
UPDATE jobs SET stage_at = value ->> 1, error_code = NULL, error_text = NULL,
  route_attempts = CASE WHEN value ->> 1 IS NULL THEN 0 ELSE route_attempts + 1 END,
  state = CASE state WHEN 'published' THEN state ELSE 'signed-pending-publish' END
FROM json_each(:rows)
WHERE jobs.id = value ->> 0 AND stage_at IS NOT NULL
  AND state IN ('scheduled', 'signed-pending-publish', 'published');
