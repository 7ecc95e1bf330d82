-- Signed jobs that the stager must send on their way, those that waited for a signature first
-- (A8): [[job, state, priority, due_at, targets, policy, expires_at, route_attempts, body], …].
-- Bodies are read only of jobs that are routed by lists; those come last, since they take longer.
SELECT json_group_array(json_array(id, state, priority, due_at, coalesce(targets, '[]'), policy,
  expires_at, route_attempts, CASE route WHEN 'auto' THEN (
    SELECT CAST(body AS TEXT) FROM payloads WHERE job = id) END))
FROM (
  SELECT * FROM jobs WHERE state <> 'pending-sign' AND stage_at <= :now
    AND id NOT IN (SELECT value FROM json_each(:holding))
  ORDER BY route = 'auto', state <> 'signed-pending-publish', priority, stage_at
  LIMIT :limit);
