-- What these jobs are known by: keys, then event ids, as who accepts takes them, and before the jobs.
SELECT key FROM idempotency WHERE job = ANY(:jobs::bigint[]) ORDER BY key FOR UPDATE;
SELECT event_id FROM identities WHERE event_id = ANY(ARRAY(
    SELECT event_id FROM jobs WHERE id = ANY(:jobs::bigint[])
    UNION ALL SELECT event_id FROM job_history WHERE id = ANY(:jobs::bigint[])))
ORDER BY event_id FOR UPDATE;
