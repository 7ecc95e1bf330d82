-- Keep new jobs that differ only in their events. Rows: [job, event_id, pubkey, kind, created_at,
-- address, size, expires_at, due_at]; the rest is the same for all of them.
INSERT INTO jobs (id, event_id, pubkey, kind, created_at, address, size, expires_at, due_at,
  signed, state, priority, goal, goal_mine, goal_inbox, policy, targets, route, accepted_at,
  stage_at, finished_at)
SELECT e.job, decode(e.event_id, 'hex'), decode(e.pubkey, 'hex'), e.kind, e.created_at,
  sha256(convert_to(e.address, 'UTF8')), e.size, e.expires_at, e.due_at,
  :signed::smallint, :state::text, :priority::smallint, :goal::integer, :goal_mine::integer,
  :goal_inbox::integer, :policy::text, :targets::text, :route::text, :now::bigint,
  CASE WHEN :state = 'pending-sign' OR :to_route::integer = 1 THEN :now
    WHEN :state = 'scheduled' THEN e.due_at END,
  CASE WHEN :state = 'superseded' THEN :now END
FROM unnest(:rows.0::bigint[], :rows.1::text[], :rows.2::text[], :rows.3::integer[],
  :rows.4::bigint[], :rows.5::text[], :rows.6::integer[], :rows.7::bigint[], :rows.8::bigint[])
  AS e (job, event_id, pubkey, kind, created_at, address, size, expires_at, due_at);
