-- Where a job shall go that was not sent on its way yet; nothing for all others.
SELECT targets FROM jobs
WHERE id = :job::bigint AND NOT EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id);
