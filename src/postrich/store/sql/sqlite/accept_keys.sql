-- Remember idempotency keys: [[key, job], …].
INSERT OR IGNORE INTO idempotency (key, job)
SELECT value ->> 0, value ->> 1 FROM json_each(:rows);
