-- History past its age.
SELECT id FROM job_history WHERE finished_at <= :before::bigint
ORDER BY finished_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED;
