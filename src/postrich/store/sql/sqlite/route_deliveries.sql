-- Make deliveries. Groups: [[job, …], [[destination, reason, mine], …], band, next_at], so that
-- jobs with the same route cost one line. A delivery that is there already is left alone.
-- MATERIALIZED: a group's JSON is read once per destination, not once per delivery.
WITH d AS MATERIALIZED (
  SELECT e.value ->> 0 AS destination, e.value ->> 1 AS reason, e.value ->> 2 AS mine,
    g.value ->> 2 AS band, g.value ->> 3 AS next_at, g.value -> 0 AS jobs
  FROM json_each(:groups) AS g CROSS JOIN json_each(g.value, '$[1]') AS e)
INSERT OR IGNORE INTO deliveries (job, destination, state, band, next_at, attempts, reason, mine)
SELECT j.value, d.destination, 'waiting', d.band, d.next_at, 0, d.reason, d.mine
FROM d CROSS JOIN json_each(d.jobs) AS j;
