-- Of :jobs, those that wait for a job that ended without being published.
SELECT json_group_array(DISTINCT d.job) FROM dependencies AS d
WHERE d.job IN (SELECT value FROM json_each(:jobs)) AND coalesce(
  (SELECT finished_at IS NOT NULL AND state <> 'published' FROM jobs WHERE id = d.needs),
  (SELECT state <> 'published' FROM job_history WHERE id = d.needs), 0);
