-- Of :jobs, those that still wait for another job to be published.
SELECT json_group_array(DISTINCT job) FROM (
  SELECT d.job, coalesce((SELECT state FROM jobs WHERE id = d.needs),
    (SELECT state FROM job_history WHERE id = d.needs), 'failed') AS state
  FROM dependencies AS d WHERE d.job IN (SELECT value FROM json_each(:jobs)))
WHERE state <> 'published';
