-- A person wants it now: everything that is not settled for good is due at once, and what went
-- wrong before is no error any more (the story keeps it).
UPDATE deliveries SET state = 'waiting', next_at = :now::bigint, band = band & ~1::smallint,
  settled_at = NULL, code = NULL, detail = NULL,
  attempts = CASE WHEN :resets::integer = 1 THEN 0 ELSE attempts END
WHERE job = ANY(:jobs::bigint[])
  AND state IN ('waiting', 'refused', 'parked', 'skipped', 'unknown', 'failed');
