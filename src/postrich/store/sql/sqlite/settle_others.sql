-- Every other result. Rows: [job, state, attempts, next_at, code, detail, burnt]. Whatever was
-- tried counts; but only a waiting delivery moves, and a settled one only to delivered, by an
-- OK that came late.
UPDATE deliveries SET attempts = attempts + (value ->> 6), next_at = value ->> 3, band = band | 1,
  state = CASE WHEN state = 'waiting' OR value ->> 1 = 'delivered' THEN value ->> 1 ELSE state END,
  code = CASE WHEN state = 'waiting' OR (state <> 'delivered' AND value ->> 1 = 'delivered')
    THEN value ->> 4 ELSE code END,
  detail = CASE WHEN state = 'waiting' OR (state <> 'delivered' AND value ->> 1 = 'delivered')
    THEN value ->> 5 ELSE detail END,
  settled_at = CASE WHEN state = 'waiting' OR (state <> 'delivered' AND value ->> 1 = 'delivered')
    THEN CASE value ->> 1 WHEN 'waiting' THEN NULL ELSE :now END ELSE settled_at END
FROM json_each(:rows)
WHERE deliveries.job = value ->> 0 AND deliveries.destination = :destination;
