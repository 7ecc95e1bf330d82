-- Those that wait for :jobs: of two who publish what a job waits for, the second must see it.
SELECT id FROM jobs
WHERE id = ANY(ARRAY(SELECT job FROM dependencies WHERE needs = ANY(:jobs::bigint[])))
ORDER BY id FOR UPDATE;
