-- Finished jobs that nobody needs to act on.
SELECT json_group_array(id) FROM (
  SELECT id FROM jobs WHERE finished_at IS NOT NULL AND finished_at <= :before
    AND state IN ('published', 'cancelled', 'superseded')
  ORDER BY finished_at LIMIT :limit);
