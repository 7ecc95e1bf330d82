-- Which of the keys belong to another job. Rows: [key, job] → [job, other job].
SELECT e.job, k.job FROM unnest(:rows.0::text[], :rows.1::bigint[]) AS e (key, job)
JOIN idempotency AS k ON k.key = sha256(convert_to(e.key, 'UTF8')) WHERE k.job <> e.job;
