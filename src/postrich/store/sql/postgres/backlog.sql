-- Open deliveries per relay: [url, waiting, tried].
SELECT t.url, n, tried FROM (
  SELECT destination, count(*) AS n, count(*) FILTER (WHERE attempts > 0) AS tried
  FROM deliveries WHERE state = 'waiting' GROUP BY destination) AS d
JOIN destinations AS t ON t.id = d.destination;
