-- Somebody's list changed: open jobs that it concerns are routed again (D11).
WITH mine AS MATERIALIZED (SELECT id FROM jobs
  WHERE id = ANY(ARRAY(SELECT job FROM inboxes WHERE pubkey = decode(:pubkey, 'hex')
      UNION SELECT id FROM jobs WHERE finished_at IS NULL AND pubkey = decode(:pubkey, 'hex')))
    AND finished_at IS NULL AND route = 'auto' AND stage_at IS NULL
    AND state IN ('signed-pending-publish', 'published')
  ORDER BY id FOR UPDATE)
UPDATE jobs SET stage_at = :now::bigint FROM mine WHERE jobs.id = mine.id;
