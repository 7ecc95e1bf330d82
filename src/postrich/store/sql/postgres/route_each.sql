-- Make deliveries. Rows: [job, destination, reason, mine, band, next_at]. A delivery that is there
-- already is left alone.
INSERT INTO deliveries (job, destination, state, band, next_at, attempts, reason, mine)
SELECT e.job, e.destination, 'waiting', e.band, e.next_at, 0, e.reason, e.mine
FROM unnest(:rows.0::bigint[], :rows.1::integer[], :rows.2::text[], :rows.3::smallint[],
  :rows.4::smallint[], :rows.5::bigint[]) AS e (job, destination, reason, mine, band, next_at)
ON CONFLICT DO NOTHING;
