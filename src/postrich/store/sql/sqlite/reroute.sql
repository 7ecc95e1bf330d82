-- Somebody's list changed: open jobs that it concerns are routed again (D11).
UPDATE jobs SET stage_at = :now
WHERE finished_at IS NULL AND route = 'auto' AND stage_at IS NULL
  AND state IN ('signed-pending-publish', 'published')
  AND (id IN (SELECT job FROM inboxes WHERE pubkey = unhex(:pubkey))
    OR id IN (SELECT id FROM jobs INDEXED BY jobs_open
      WHERE finished_at IS NULL AND pubkey = unhex(:pubkey)));
