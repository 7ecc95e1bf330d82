-- Move jobs and deliveries to history.
WITH j AS (DELETE FROM jobs WHERE id = ANY(:jobs::bigint[]) RETURNING *),
  d AS (DELETE FROM deliveries WHERE job = ANY(:jobs::bigint[]) RETURNING *),
  kept AS (INSERT INTO job_history SELECT * FROM j)
INSERT INTO delivery_history SELECT * FROM d;
