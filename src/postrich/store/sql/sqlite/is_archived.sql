-- Whether a job is in history.
SELECT EXISTS (SELECT 1 FROM job_history WHERE id = :job);
