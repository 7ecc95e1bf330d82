-- Every other result. Rows: [job, state, attempts, next_at, code, detail, burnt]. Only a
-- waiting delivery moves; a settled one only to delivered, by an OK that came late.
UPDATE deliveries SET state = value ->> 1, attempts = value ->> 2, next_at = value ->> 3,
  band = band | 1, code = value ->> 4, detail = value ->> 5,
  settled_at = CASE WHEN value ->> 1 = 'waiting' THEN NULL ELSE :now END
FROM json_each(:rows)
WHERE deliveries.job = value ->> 0 AND deliveries.destination = :destination
  AND (deliveries.state = 'waiting'
    OR (value ->> 1 = 'delivered' AND deliveries.state <> 'delivered'));
