-- Who waits for whom: [job, needs].
INSERT INTO dependencies (job, needs) SELECT * FROM unnest(:rows.0::bigint[], :rows.1::bigint[])
ON CONFLICT DO NOTHING;
