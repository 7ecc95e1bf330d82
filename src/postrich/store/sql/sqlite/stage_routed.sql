-- Due and signed jobs go to the lanes.
UPDATE jobs SET state = 'signed-pending-publish', stage_at = NULL
WHERE id IN (SELECT value FROM json_each(:jobs))
  AND state IN ('scheduled', 'signed-pending-publish') AND stage_at IS NOT NULL;
