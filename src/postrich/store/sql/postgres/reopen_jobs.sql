-- New destinations were added to these jobs: they live for as long as the new ones need.
UPDATE jobs SET finished_at = NULL, expires_at = greatest(expires_at, :expires_at::bigint),
  state = CASE WHEN state IN ('failed', 'parked') THEN 'signed-pending-publish' ELSE state END
WHERE id = ANY(:jobs::bigint[])
  AND EXISTS (SELECT 1 FROM deliveries WHERE job = jobs.id AND state = 'waiting');
