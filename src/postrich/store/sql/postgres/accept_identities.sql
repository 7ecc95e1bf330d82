-- Claim event ids for new jobs; ids that have a job already keep it, and nobody deletes that now.
-- In the order of ids, so that two who accept the same events do not wait for each other.
INSERT INTO identities (event_id, job)
SELECT DISTINCT ON (id) decode(id, 'hex') AS event_id, :base::bigint + place - 1
FROM unnest(:ids::text[]) WITH ORDINALITY AS e (id, place) WHERE id IS NOT NULL
ORDER BY id, place
ON CONFLICT (event_id) DO UPDATE SET job = identities.job WHERE false;
