-- Bring jobs back from history.
WITH j AS (DELETE FROM job_history WHERE id = ANY(:jobs::bigint[]) RETURNING *),
  d AS (DELETE FROM delivery_history WHERE job = ANY(:jobs::bigint[]) RETURNING *),
  kept AS (INSERT INTO jobs SELECT * FROM j)
INSERT INTO deliveries SELECT * FROM d;
