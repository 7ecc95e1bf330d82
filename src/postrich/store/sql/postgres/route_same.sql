-- Make the deliveries of jobs that all go the same way. Routes: [destination, reason, mine]. A
-- delivery that is there already is left alone.
INSERT INTO deliveries (job, destination, state, band, next_at, attempts, reason, mine)
SELECT job, r.destination, 'waiting', :band::smallint, :next_at::bigint, 0, r.reason, r.mine
FROM unnest(:jobs::bigint[]) AS job
CROSS JOIN unnest(:routes.0::integer[], :routes.1::text[], :routes.2::smallint[])
  AS r (destination, reason, mine)
ON CONFLICT DO NOTHING;
