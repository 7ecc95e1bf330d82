-- Due work of one destination: [job, attempts, band, next_at], urgent before later, early before late,
-- up to :fresh never tried and :retried tried before. :holding is what the lane has in memory.
-- :small limits non-urgent work to small events (metered mode); NULL means no limit.
-- :hours and :jobs say by band after which (next_at, job) to begin.
-- Each band is one range of the queue's index; its small harvests are then put in order.
SELECT job, attempts, b, next_at FROM (
  SELECT 0 AS part, * FROM (
    SELECT b, d.next_at, d.job, d.attempts FROM unnest('{0,2,4,6}'::smallint[]) AS b
    CROSS JOIN LATERAL (
      SELECT next_at, job, attempts FROM deliveries
      WHERE state = 'waiting' AND destination = :destination::integer AND band = b
        AND next_at <= :now::bigint AND job NOT IN (SELECT unnest(:holding::bigint[]))
        AND (next_at, job) > ((:hours::bigint[])[b + 1], (:jobs::bigint[])[b + 1])
        AND (:small::bigint IS NULL OR band < 2
          OR (SELECT size FROM jobs WHERE id = deliveries.job) <= :small)
      ORDER BY next_at, job LIMIT :fresh::bigint) AS d
    ORDER BY b, d.next_at, d.job LIMIT :fresh) AS fresh
  UNION ALL
  SELECT 1 AS part, * FROM (
    SELECT b, d.next_at, d.job, d.attempts FROM unnest('{1,3,5,7}'::smallint[]) AS b
    CROSS JOIN LATERAL (
      SELECT next_at, job, attempts FROM deliveries
      WHERE state = 'waiting' AND destination = :destination::integer AND band = b
        AND next_at <= :now::bigint AND job NOT IN (SELECT unnest(:holding::bigint[]))
        AND (next_at, job) > ((:hours::bigint[])[b + 1], (:jobs::bigint[])[b + 1])
        AND (:small::bigint IS NULL OR band < 2
          OR (SELECT size FROM jobs WHERE id = deliveries.job) <= :small)
      ORDER BY next_at, job LIMIT :retried::bigint) AS d
    ORDER BY b, d.next_at, d.job LIMIT :retried) AS retried
) AS due ORDER BY part, b, next_at, job;
