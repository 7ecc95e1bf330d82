-- Of :jobs, those that still wait for another job to be published.
SELECT DISTINCT job FROM (
  SELECT d.job, coalesce((SELECT state FROM jobs WHERE id = d.needs),
    (SELECT state FROM job_history WHERE id = d.needs), 'failed') AS state
  FROM dependencies AS d WHERE d.job = ANY(:jobs::bigint[])) AS n
WHERE state <> 'published';
