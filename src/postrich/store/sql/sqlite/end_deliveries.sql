-- Stop what still waits of :jobs, at :relays only where that is not null; nothing delivered is
-- touched.
UPDATE deliveries SET state = :state, settled_at = :now, code = :state, detail = :detail
WHERE job IN (SELECT value FROM json_each(:jobs)) AND state IN ('waiting', 'parked')
  AND (:relays IS NULL OR destination IN (
    SELECT id FROM destinations WHERE url IN (SELECT value FROM json_each(:relays))));
