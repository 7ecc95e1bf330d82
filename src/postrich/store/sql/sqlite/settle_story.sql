-- The story's lines for results that are more than a plain OK. A job that was deleted meanwhile
-- has no story; to one that was delivered already nothing can be added.
INSERT INTO story (job, at, what, destination, attempt, detail)
SELECT value ->> 0, :now, value ->> 4, :destination,
  CASE WHEN value ->> 6 THEN value ->> 2 END, coalesce(value ->> 5, '')
FROM json_each(:rows) CROSS JOIN deliveries
WHERE deliveries.job = value ->> 0 AND deliveries.destination = :destination
  AND deliveries.state <> 'delivered' AND (value ->> 6 OR value ->> 1 <> 'waiting');
