-- Of these jobs, those whose hour has not come: it was changed meanwhile.
SELECT id FROM jobs
WHERE id = ANY(:jobs::bigint[]) AND state = 'scheduled' AND stage_at > :now::bigint;
