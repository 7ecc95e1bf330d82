-- Jobs whose lifetime is over.
SELECT json_group_array(id) FROM (
  SELECT id FROM jobs WHERE finished_at IS NULL AND expires_at <= :now
  ORDER BY expires_at LIMIT :limit);
