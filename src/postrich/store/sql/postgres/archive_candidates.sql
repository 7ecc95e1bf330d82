-- Finished jobs that nobody needs to act on.
SELECT id FROM jobs WHERE finished_at IS NOT NULL AND finished_at <= :before::bigint
  AND state IN ('published', 'cancelled', 'superseded')
ORDER BY finished_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED;
