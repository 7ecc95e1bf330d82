-- The numbers of messages to send now, at most :each of a hook. Those of the same job go one after
-- the other.
SELECT json_group_array(number) FROM (
  SELECT m.number FROM hooks AS h JOIN hook_messages AS m ON m.number IN (
    SELECT w.number FROM hook_messages AS w
    WHERE w.hook = h.id AND w.state = 'waiting' AND w.next_at <= :now
      AND w.number NOT IN (SELECT value FROM json_each(:holding))
      AND NOT EXISTS (SELECT 1 FROM hook_messages AS e WHERE e.hook = w.hook AND e.job = w.job
        AND e.number < w.number AND e.state = 'waiting')
    ORDER BY w.next_at, w.number LIMIT :each)
  WHERE h.state = 'active' AND h.key = :key
  ORDER BY m.next_at, m.number);
