-- The jobs among :jobs that may have to move, with their deliveries counted:
-- [[job, state, goal, waiting, delivered, parked, superseded, dead, cancelled], …]. A job that is finished
-- moves only by an OK that came late, or when nothing of it is parked any more.
SELECT json_group_array(json_array(j.id, j.state, j.goal, t.waiting, t.delivered, t.parked,
  t.superseded, t.dead, t.cancelled))
FROM (
  SELECT job, sum(state = 'waiting') AS waiting, sum(state = 'delivered') AS delivered,
    sum(state = 'parked') AS parked, sum(state = 'superseded') AS superseded,
    sum(state IN ('refused', 'skipped', 'unknown', 'failed')) AS dead,
    sum(state = 'cancelled') AS cancelled
  FROM deliveries WHERE job IN (SELECT value FROM json_each(:jobs)) GROUP BY job
) AS t JOIN jobs AS j ON j.id = t.job
WHERE (t.waiting = 0 AND j.finished_at IS NULL) OR (t.delivered >= j.goal AND j.state <> 'published')
  OR (t.parked = 0 AND j.state = 'parked');
