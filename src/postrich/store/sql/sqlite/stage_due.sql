-- Jobs that the stager must move: unsigned ones first, then the earliest (A8).
SELECT json_group_array(json_array(id, state, priority, policy, sign_attempts, expires_at,
  due_at, targets, body))
FROM (
  SELECT j.*, p.body FROM jobs AS j JOIN payloads AS p ON p.job = j.id
  WHERE j.stage_at <= :now
  ORDER BY j.state <> 'pending-sign', j.state <> 'signed-pending-publish', j.priority, j.stage_at
  LIMIT :limit);
