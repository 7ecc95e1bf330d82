-- Due work of one destination: [[job, attempts, band, next_at], …], urgent before later, early before
-- late, up to :fresh never tried and :retried tried before. :holding is what the lane has in memory.
-- :small limits non-urgent work to small events (metered mode); NULL means no limit.
-- :hours and :jobs say by band after which (next_at, job) to begin.
-- The loops run in the order written (CROSS JOIN), each over one range of the index.
WITH floors (band, hour, job) AS MATERIALIZED (
  SELECT h.key, h.value, j.value FROM json_each(:hours) AS h CROSS JOIN json_each(:jobs) AS j
  WHERE j.key = h.key)
SELECT json_group_array(json_array(job, attempts, band, next_at)) FROM (
  SELECT * FROM (
    SELECT d.job, d.attempts, d.band, d.next_at FROM floors AS f CROSS JOIN deliveries AS d
    WHERE f.band & 1 = 0 AND d.state = 'waiting' AND d.destination = :destination
      AND d.band = f.band AND (d.next_at, d.job) > (f.hour, f.job)
      AND d.next_at <= :now AND d.job NOT IN (SELECT value FROM json_each(:holding))
      AND (:small IS NULL OR d.band < 2 OR (SELECT size FROM jobs WHERE id = d.job) <= :small)
    LIMIT :fresh)
  UNION ALL
  SELECT * FROM (
    SELECT d.job, d.attempts, d.band, d.next_at FROM floors AS f CROSS JOIN deliveries AS d
    WHERE f.band & 1 = 1 AND d.state = 'waiting' AND d.destination = :destination
      AND d.band = f.band AND (d.next_at, d.job) > (f.hour, f.job)
      AND d.next_at <= :now AND d.job NOT IN (SELECT value FROM json_each(:holding))
      AND (:small IS NULL OR d.band < 2 OR (SELECT size FROM jobs WHERE id = d.job) <= :small)
    LIMIT :retried));
