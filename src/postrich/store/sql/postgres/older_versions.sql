-- Jobs that a newer version of their address makes useless.
SELECT id FROM jobs
WHERE address = sha256(convert_to(:address::text, 'UTF8')) AND id <> :winner::bigint
  AND (finished_at IS NULL OR state = 'parked')
ORDER BY id FOR UPDATE;
