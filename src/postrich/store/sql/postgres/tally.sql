-- The jobs among :jobs that may have to move, with their deliveries counted:
-- [job, state, goal, waiting, delivered, parked, superseded, dead, cancelled, goal_mine, mine,
-- unmet]. What is still to be routed waits too, and may have readers who have nothing yet. A job
-- that is finished moves only by an OK that came late, or when nothing of it is parked any more.
SELECT j.id, j.state, j.goal, t.waiting + (j.stage_at IS NOT NULL)::integer, t.delivered, t.parked,
  t.superseded, t.dead, t.cancelled, j.goal_mine, t.mine,
  CASE j.goal_inbox WHEN 0 THEN 0 ELSE (j.stage_at IS NOT NULL)::integer + (
    SELECT count(*) FROM (
      SELECT count(*) FILTER (WHERE d.state = 'delivered') AS got, count(*) AS places
      FROM inboxes AS i JOIN deliveries AS d ON d.job = i.job AND d.destination = i.destination
      WHERE i.job = j.id GROUP BY i.pubkey) AS r
    WHERE got < least(places, j.goal_inbox)) END
FROM (
  SELECT job, count(*) FILTER (WHERE state = 'waiting') AS waiting,
    count(*) FILTER (WHERE state = 'delivered') AS delivered,
    count(*) FILTER (WHERE state = 'delivered' AND mine = 1) AS mine,
    count(*) FILTER (WHERE state = 'parked') AS parked,
    count(*) FILTER (WHERE state = 'superseded') AS superseded,
    count(*) FILTER (WHERE state IN ('refused', 'skipped', 'unknown', 'failed')) AS dead,
    count(*) FILTER (WHERE state = 'cancelled') AS cancelled
  FROM deliveries WHERE job = ANY(:jobs::bigint[]) GROUP BY job
) AS t JOIN jobs AS j ON j.id = t.job
WHERE (t.waiting = 0 AND j.finished_at IS NULL) OR (t.delivered >= j.goal AND j.state <> 'published')
  OR (t.parked = 0 AND j.state = 'parked');
