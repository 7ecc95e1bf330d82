-- Open deliveries and how often they were tried, from the queue's own index.
SELECT json_array(count(*), coalesce(sum(attempts), 0))
FROM deliveries INDEXED BY deliveries_due WHERE state = 'waiting';
