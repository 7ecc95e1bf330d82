-- How many hooks have this master secret, when the next message to them is due, and how many have
-- another: (mine, next_at, others).
SELECT count(*), min((SELECT min(next_at) FROM hook_messages AS m
    WHERE m.hook = h.id AND m.state = 'waiting')),
  (SELECT count(*) FROM hooks AS o WHERE o.state = 'active' AND o.key <> :key)
FROM hooks AS h WHERE h.state = 'active' AND h.key = :key;
