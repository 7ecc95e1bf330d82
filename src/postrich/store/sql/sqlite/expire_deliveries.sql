-- Nothing of these is routed any more. What was never answered stays unknown; the rest failed. A retry clears the code: then the
-- story tells.
UPDATE deliveries SET settled_at = :now,
  state = CASE WHEN code IN ('timeout', 'closed') OR (code IS NULL AND EXISTS (
    SELECT 1 FROM story AS s WHERE s.job = deliveries.job
      AND s.destination = deliveries.destination AND s.what IN ('timeout', 'closed')))
    THEN 'unknown' ELSE 'failed' END,
  detail = 'lifetime over' || CASE WHEN coalesce(detail, '') = '' THEN '' ELSE '; last: ' || detail END,
  code = 'expired'
WHERE job IN (SELECT value FROM json_each(:jobs)) AND state = 'waiting';
UPDATE jobs SET stage_at = NULL WHERE id IN (SELECT value FROM json_each(:jobs));
