-- The jobs of those :rows (see settle_others) that say something new of a delivery that is there:
-- a result whose commit was not heard of may be told twice, and counts once.
SELECT json_group_array(d.job) FROM json_each(:rows) AS e CROSS JOIN deliveries AS d
WHERE d.job = e.value ->> 0 AND d.destination = :destination
  AND CASE WHEN e.value ->> 6 THEN d.attempts < e.value ->> 2
    ELSE e.value ->> 1 = 'waiting' OR d.state <> e.value ->> 1 OR d.code IS NOT e.value ->> 4 END;
