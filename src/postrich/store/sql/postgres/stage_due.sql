-- Signed jobs that the stager must send on their way, those that waited for a signature first
-- (A8): [job, state, priority, due_at, targets, policy, expires_at, route_attempts, body].
-- Bodies are read only of jobs that are routed by lists; those come last, since they take longer.
SELECT id, state, priority, due_at, coalesce(targets, '[]'), policy, expires_at, route_attempts,
  CASE route WHEN 'auto' THEN (
    SELECT replace(convert_from(body, 'UTF8'), chr(64976), chr(64976) || '1')
    FROM payloads WHERE job = id) END
FROM jobs WHERE stage_at IS NOT NULL AND state <> 'pending-sign' AND stage_at <= :now::bigint
  AND id NOT IN (SELECT unnest(:holding::bigint[]))
ORDER BY route = 'auto', state <> 'signed-pending-publish', priority, stage_at, id
LIMIT :limit::bigint;
