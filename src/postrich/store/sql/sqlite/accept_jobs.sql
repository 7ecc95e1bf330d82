-- Keep new jobs. Rows: [job, event_id, pubkey, kind, created_at, address, signed, state,
-- priority, goal, policy, targets, due_at, expires_at, stage_at, size].
INSERT INTO jobs (id, event_id, pubkey, kind, created_at, address, signed, state, priority,
  goal, policy, targets, accepted_at, due_at, expires_at, stage_at, size, finished_at)
SELECT value ->> 0, unhex(value ->> 1), unhex(value ->> 2), value ->> 3, value ->> 4,
  value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11,
  :now, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
  CASE WHEN value ->> 7 = 'superseded' THEN :now END
FROM json_each(:rows);
