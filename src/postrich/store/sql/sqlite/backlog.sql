-- Open deliveries per relay: [[url, waiting, tried], …].
SELECT json_group_array(json_array(t.url, n, tried)) FROM (
  SELECT destination, count(*) AS n, sum(attempts > 0) AS tried
  FROM deliveries INDEXED BY deliveries_due WHERE state = 'waiting' GROUP BY destination) AS d
JOIN destinations AS t ON t.id = d.destination;
