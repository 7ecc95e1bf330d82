-- What was never answered stays unknown; the rest failed.
UPDATE deliveries SET settled_at = :now,
  state = CASE WHEN code IN ('timeout', 'closed') THEN 'unknown' ELSE 'failed' END,
  detail = 'lifetime over' || CASE WHEN coalesce(detail, '') = '' THEN '' ELSE '; last: ' || detail END,
  code = 'expired'
WHERE job IN (SELECT value FROM json_each(:jobs)) AND state = 'waiting';
