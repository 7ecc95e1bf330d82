-- Nothing of these is routed any more. What was never answered stays unknown; the rest failed. A
-- retry clears the code: then the story tells.
UPDATE deliveries SET settled_at = :now::bigint,
  state = CASE WHEN code IN ('timeout', 'closed') OR (code IS NULL AND (
    SELECT count(*) FROM story AS s WHERE s.job = deliveries.job
      AND s.destination = deliveries.destination AND s.what IN ('timeout', 'closed')) > 0)
    THEN 'unknown' ELSE 'failed' END,
  detail = 'lifetime over' || CASE WHEN coalesce(detail, '') = '' THEN '' ELSE '; last: ' || detail END,
  code = 'expired'
WHERE job = ANY(:jobs::bigint[]) AND state = 'waiting';
UPDATE jobs SET stage_at = NULL WHERE id = ANY(:jobs::bigint[]);
