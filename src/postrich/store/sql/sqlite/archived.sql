-- Of :jobs, those that are in history.
SELECT json_group_array(id) FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs));
