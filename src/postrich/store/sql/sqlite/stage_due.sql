-- Jobs that the stager must move: unsigned ones first, then the earliest (A8). Bodies are read
-- only of those that are returned.
SELECT json_group_array(json_array(id, state, priority, policy, sign_attempts, expires_at,
  due_at, targets, (SELECT CAST(body AS TEXT) FROM payloads WHERE job = id)))
FROM (
  SELECT * FROM jobs WHERE stage_at <= :now
  ORDER BY state <> 'pending-sign', state <> 'signed-pending-publish', priority, stage_at
  LIMIT :limit);
