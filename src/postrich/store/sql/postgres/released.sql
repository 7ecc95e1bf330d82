-- Jobs that waited for one of :jobs and now wait for nobody.
SELECT d.job FROM (SELECT DISTINCT job FROM dependencies WHERE needs = ANY(:jobs::bigint[])) AS d
WHERE NOT EXISTS (
  SELECT 1 FROM dependencies AS o WHERE o.job = d.job
    AND coalesce((SELECT state FROM jobs WHERE id = o.needs),
      (SELECT state FROM job_history WHERE id = o.needs), 'failed') <> 'published');
