-- Of :jobs, those that are in history.
SELECT id FROM job_history WHERE id = ANY(:jobs::bigint[]);
