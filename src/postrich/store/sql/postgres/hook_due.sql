-- The numbers of messages to send now, at most :each of a hook. Those of the same job go one after
-- the other.
SELECT m.number FROM hooks AS h CROSS JOIN LATERAL (
  SELECT w.number, w.next_at FROM hook_messages AS w
  WHERE w.hook = h.id AND w.state = 'waiting' AND w.next_at <= :now::bigint
    AND w.number NOT IN (SELECT unnest(:holding::bigint[]))
    AND (SELECT count(*) FROM hook_messages AS e WHERE e.hook = w.hook AND e.job = w.job
      AND e.number < w.number AND e.state = 'waiting') = 0
  ORDER BY w.next_at, w.number LIMIT :each::bigint) AS m
WHERE h.state = 'active' AND h.key = :key::text
ORDER BY m.next_at, m.number;
