-- A person wants it now: everything that is not settled for good is due at once, and what went
-- wrong before is no error any more (the story keeps it).
UPDATE deliveries SET state = 'waiting', next_at = :now, band = band & ~1, settled_at = NULL,
  attempts = CASE WHEN :resets THEN 0 ELSE attempts END, code = NULL, detail = NULL
WHERE job IN (SELECT value FROM json_each(:jobs))
  AND state IN ('waiting', 'refused', 'parked', 'skipped', 'unknown', 'failed');
