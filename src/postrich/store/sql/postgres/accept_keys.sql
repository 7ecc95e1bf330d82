-- Claim idempotency keys for new jobs: [key, job]; those that are used are left alone, and stay
-- as they are.
INSERT INTO idempotency (key, full_key, job)
SELECT sha256(convert_to(key, 'UTF8')) AS digest, key, job
FROM unnest(:rows.0::text[], :rows.1::bigint[]) AS e (key, job) ORDER BY digest
ON CONFLICT (key) DO UPDATE SET job = idempotency.job WHERE false;
