-- The jobs among :jobs that may have to move, with their deliveries counted:
-- [[job, state, goal, waiting, delivered, parked, superseded, dead, cancelled, goal_mine, mine,
-- unmet], …]. What is still to be routed waits too, and may have readers who have nothing yet. A job that is finished moves only by an OK
-- that came late, or when nothing of it is parked any more.
SELECT json_group_array(json_array(j.id, j.state, j.goal, t.waiting + (j.stage_at IS NOT NULL),
  t.delivered, t.parked, t.superseded, t.dead, t.cancelled, j.goal_mine, t.mine,
  CASE j.goal_inbox WHEN 0 THEN 0 ELSE (j.stage_at IS NOT NULL) + (SELECT count(*) FROM (
    SELECT sum(d.state = 'delivered') AS got, count(*) AS places
    FROM inboxes AS i JOIN deliveries AS d ON d.job = i.job AND d.destination = i.destination
    WHERE i.job = j.id GROUP BY i.pubkey) WHERE got < min(places, j.goal_inbox)) END))
FROM (
  SELECT job, sum(state = 'waiting') AS waiting, sum(state = 'delivered') AS delivered,
    sum(state = 'delivered' AND mine) AS mine,
    sum(state = 'parked') AS parked, sum(state = 'superseded') AS superseded,
    sum(state IN ('refused', 'skipped', 'unknown', 'failed')) AS dead,
    sum(state = 'cancelled') AS cancelled
  FROM deliveries WHERE job IN (SELECT value FROM json_each(:jobs)) GROUP BY job
) AS t JOIN jobs AS j ON j.id = t.job
WHERE (t.waiting = 0 AND j.finished_at IS NULL) OR (t.delivered >= j.goal AND j.state <> 'published')
  OR (t.parked = 0 AND j.state = 'parked');
