-- Destinations with open deliveries: [destination, url, trusted, earliest, nudged, messages],
-- `messages`: gift wraps wait for a stranger's relay. A few index seeks per such destination,
-- however many others there are.
WITH RECURSIVE busy (destination) AS (
  (SELECT destination FROM deliveries WHERE state = 'waiting' ORDER BY destination LIMIT 1)
  UNION ALL
  SELECT (SELECT destination FROM deliveries
    WHERE state = 'waiting' AND destination > busy.destination ORDER BY destination LIMIT 1)
  FROM busy WHERE busy.destination IS NOT NULL)
SELECT t.id, t.url, t.trusted, (
    SELECT min((SELECT next_at FROM deliveries
      WHERE state = 'waiting' AND destination = busy.destination AND band = b
      ORDER BY next_at LIMIT 1)) FROM unnest('{0,1,2,3,4,5,6,7}'::smallint[]) AS b),
  EXISTS (SELECT 1 FROM nudges WHERE destination = t.id)::integer,
  CASE t.trusted WHEN 1 THEN 0 ELSE coalesce((
    SELECT 1 FROM deliveries AS d JOIN jobs AS j ON j.id = d.job
    WHERE d.state = 'waiting' AND d.destination = t.id AND j.kind IN (1059, 21059) LIMIT 1), 0) END
FROM busy JOIN destinations AS t ON t.id = busy.destination;
