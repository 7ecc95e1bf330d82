-- Destinations with open deliveries: [[destination, url, trusted, earliest, nudged, messages], …],
-- `messages`: gift wraps wait for a stranger's relay. A few
-- index seeks per such destination, however many others there are.
WITH RECURSIVE busy (destination) AS (
  SELECT min(destination) FROM deliveries WHERE state = 'waiting'
  UNION ALL
  SELECT (SELECT min(destination) FROM deliveries
    WHERE state = 'waiting' AND destination > busy.destination)
  FROM busy WHERE busy.destination IS NOT NULL)
SELECT json_group_array(json_array(t.id, t.url, t.trusted, earliest,
  EXISTS (SELECT 1 FROM nudges WHERE destination = t.id),
  NOT t.trusted AND EXISTS (SELECT 1 FROM deliveries AS d JOIN jobs AS j ON j.id = d.job
    WHERE d.state = 'waiting' AND d.destination = t.id AND j.kind IN (1059, 21059)))) FROM (
  SELECT destination, min((
    SELECT next_at FROM deliveries
    WHERE state = 'waiting' AND destination = busy.destination AND band = b.value
    ORDER BY next_at LIMIT 1)) AS earliest
  FROM busy CROSS JOIN json_each('[0,1,2,3,4,5,6,7]') AS b
  WHERE destination IS NOT NULL GROUP BY destination
) AS w JOIN destinations AS t ON t.id = w.destination;
