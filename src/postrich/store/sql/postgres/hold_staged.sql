-- Due, but waiting for other jobs: out of the stager's sight until they are published.
UPDATE jobs SET state = 'signed-pending-publish', stage_at = NULL
WHERE id = ANY(:jobs::bigint[]) AND state IN ('scheduled', 'signed-pending-publish');
