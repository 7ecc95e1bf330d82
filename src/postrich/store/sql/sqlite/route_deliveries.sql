-- Make deliveries. Groups: [[job, …], [[destination, reason], …], band, next_at], so that
-- jobs with the same route cost one line. A delivery that is there already is left alone.
-- MATERIALIZED: a group's JSON is read once per destination, not once per delivery.
WITH d AS MATERIALIZED (
  SELECT e.value ->> 0 AS destination, e.value ->> 1 AS reason, g.value ->> 2 AS band,
    g.value ->> 3 AS next_at, g.value -> 0 AS jobs
  FROM json_each(:groups) AS g CROSS JOIN json_each(g.value, '$[1]') AS e)
INSERT OR IGNORE INTO deliveries (job, destination, state, band, next_at, attempts, reason)
SELECT j.value, d.destination, 'waiting', d.band, d.next_at, 0, d.reason
FROM d CROSS JOIN json_each(d.jobs) AS j;
