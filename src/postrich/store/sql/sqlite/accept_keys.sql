-- Claim idempotency keys for new jobs: [[key, job], …]; those that are used are left alone.
INSERT OR IGNORE INTO idempotency (key, job)
SELECT value ->> 0, value ->> 1 FROM json_each(:rows);
