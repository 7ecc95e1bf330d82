-- Posts get their names. Rows: [id, pubkey, job, crosspost]; a name that is there is left alone.
INSERT INTO posts (id, pubkey, job, crosspost)
SELECT e.id, decode(e.pubkey, 'hex'), e.job, e.crosspost
FROM unnest(:rows.0::text[], :rows.1::text[], :rows.2::bigint[], :rows.3::text[])
  AS e (id, pubkey, job, crosspost)
ON CONFLICT (id, pubkey) DO NOTHING;
