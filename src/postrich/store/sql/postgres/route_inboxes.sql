-- Who reads where. Rows: [job, pubkey, destination].
INSERT INTO inboxes (job, pubkey, destination)
SELECT e.job, decode(e.pubkey, 'hex'), e.destination
FROM unnest(:rows.0::bigint[], :rows.1::text[], :rows.2::integer[]) AS e (job, pubkey, destination)
ON CONFLICT DO NOTHING;
