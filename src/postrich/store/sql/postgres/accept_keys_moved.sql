-- Keys whose events have a job already mean that one. Rows: [job that was to be, job].
UPDATE idempotency SET job = e.job FROM unnest(:rows.0::bigint[], :rows.1::bigint[]) AS e (old, job)
WHERE idempotency.job = e.old;
