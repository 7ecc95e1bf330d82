-- Of :jobs, those that wait for a job that ended without being published.
SELECT DISTINCT d.job FROM dependencies AS d
WHERE d.job = ANY(:jobs::bigint[]) AND coalesce(
  (SELECT finished_at IS NOT NULL AND state <> 'published' FROM jobs WHERE id = d.needs),
  (SELECT state <> 'published' FROM job_history WHERE id = d.needs), false);
