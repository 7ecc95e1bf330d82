-- History past its age.
SELECT json_group_array(id) FROM (
  SELECT id FROM job_history WHERE finished_at <= :before ORDER BY finished_at LIMIT :limit);
