-- Keys whose events have a job already mean that one. Rows: [job that was to be, job].
UPDATE idempotency SET job = value ->> 1 FROM json_each(:rows) WHERE idempotency.job = value ->> 0;
