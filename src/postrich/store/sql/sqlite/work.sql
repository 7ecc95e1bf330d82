-- Destinations with open deliveries: [[destination, url, earliest, nudged], …]. One index seek
-- per destination and band.
SELECT json_group_array(json_array(id, url, earliest,
  EXISTS (SELECT 1 FROM nudges WHERE destination = id))) FROM (
  SELECT t.id, t.url, min((
    SELECT next_at FROM deliveries
    WHERE state = 'waiting' AND destination = t.id AND band = b.value
    ORDER BY next_at LIMIT 1)) AS earliest
  FROM destinations AS t, json_each('[0,1,2,3,4,5,6,7]') AS b
  GROUP BY t.id)
WHERE earliest IS NOT NULL;
