-- Signed jobs that the stager must send on their way, those that waited for a signature first
-- (A8). Bodies stay where they are.
SELECT json_group_array(json_array(id, state, priority, due_at, targets))
FROM (
  SELECT * FROM jobs WHERE state <> 'pending-sign' AND stage_at <= :now
  ORDER BY state <> 'signed-pending-publish', priority, stage_at
  LIMIT :limit);
