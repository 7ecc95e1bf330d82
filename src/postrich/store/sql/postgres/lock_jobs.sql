-- Nobody else moves these jobs until the commit, wherever they are: the second look at the hot
-- table is for a job that came back from history while we waited for it there.
SELECT id FROM jobs WHERE id = ANY(:jobs::bigint[]) ORDER BY id FOR UPDATE;
SELECT id FROM job_history WHERE id = ANY(:jobs::bigint[]) ORDER BY id FOR UPDATE;
SELECT id FROM jobs WHERE id = ANY(:jobs::bigint[]) ORDER BY id FOR UPDATE;
