-- Of these jobs, those whose hour has not come: it was changed meanwhile.
SELECT json_group_array(id) FROM jobs
WHERE id IN (SELECT value FROM json_each(:jobs)) AND state = 'scheduled' AND stage_at > :now;
