-- A person retried these jobs: their relays shall be probed at once.
INSERT INTO nudges (destination)
SELECT DISTINCT destination FROM deliveries
WHERE job = ANY(:jobs::bigint[]) AND state = 'waiting' ORDER BY destination
ON CONFLICT DO NOTHING;
