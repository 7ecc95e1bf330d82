-- Keep new jobs that differ only in their events. Rows: [job, event_id, pubkey, kind, created_at,
-- address, size, expires_at, due_at]; the rest is the same for all of them.
INSERT INTO jobs (id, event_id, pubkey, kind, created_at, address, size, expires_at, due_at,
  signed, state, priority, goal, goal_mine, goal_inbox, policy, targets, route, accepted_at,
  stage_at, finished_at)
SELECT value ->> 0, unhex(value ->> 1), unhex(value ->> 2), value ->> 3, value ->> 4,
  value ->> 5, value ->> 6, value ->> 7, value ->> 8,
  :signed, :state, :priority, :goal, :goal_mine, :goal_inbox, :policy, :targets, :route, :now,
  CASE WHEN :state = 'pending-sign' OR :to_route THEN :now WHEN :state = 'scheduled'
    THEN value ->> 8 END,
  CASE :state WHEN 'superseded' THEN :now END
FROM json_each(:rows);
