-- Open deliveries and how often they were tried, from the queue's own index.
SELECT json_build_array(count(*), coalesce(sum(attempts), 0)) AS json
FROM deliveries WHERE state = 'waiting';
