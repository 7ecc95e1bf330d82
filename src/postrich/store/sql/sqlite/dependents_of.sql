-- Jobs that wait for one of :jobs.
SELECT json_group_array(DISTINCT d.job) FROM dependencies AS d JOIN jobs AS j ON j.id = d.job
WHERE d.needs IN (SELECT value FROM json_each(:jobs)) AND j.finished_at IS NULL
  AND j.state IN ('scheduled', 'signed-pending-publish', 'pending-sign') AND j.targets IS NOT NULL;
