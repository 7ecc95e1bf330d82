-- Due work of one destination: [[job, attempts], …], urgent before later, early before late,
-- up to :fresh never tried and :retried tried before. :holding is what the lane has in memory.
-- :small limits non-urgent work to small events (metered mode); NULL means no limit.
-- The loops run in the order written (CROSS JOIN), each over one range of the index.
SELECT json_group_array(json_array(job, attempts)) FROM (
  SELECT * FROM (
    SELECT d.job, d.attempts FROM json_each('[0,2,4,6]') AS b CROSS JOIN deliveries AS d
    WHERE d.state = 'waiting' AND d.destination = :destination AND d.band = b.value
      AND d.next_at <= :now AND d.job NOT IN (SELECT value FROM json_each(:holding))
      AND (:small IS NULL OR d.band < 2 OR (SELECT size FROM jobs WHERE id = d.job) <= :small)
    LIMIT :fresh)
  UNION ALL
  SELECT * FROM (
    SELECT d.job, d.attempts FROM json_each('[1,3,5,7]') AS b CROSS JOIN deliveries AS d
    WHERE d.state = 'waiting' AND d.destination = :destination AND d.band = b.value
      AND d.next_at <= :now AND d.job NOT IN (SELECT value FROM json_each(:holding))
      AND (:small IS NULL OR d.band < 2 OR (SELECT size FROM jobs WHERE id = d.job) <= :small)
    LIMIT :retried));
