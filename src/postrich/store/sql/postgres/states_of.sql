-- [job, state, signed, event id, finished] of those that exist, finished or not.
SELECT id, state, signed, encode(event_id, 'hex'), (finished_at IS NOT NULL)::integer FROM jobs
WHERE id = ANY(:jobs::bigint[])
UNION ALL
SELECT id, state, signed, encode(event_id, 'hex'), (finished_at IS NOT NULL)::integer
FROM job_history WHERE id = ANY(:jobs::bigint[]);
