-- Messages by number, or of a hook the newest first (then :id, :before and :limit count).
SELECT json_group_array(json_object(
  'number', m.number, 'id', m.id, 'hook', m.hook, 'kind', m.kind, 'job', m.job,
  'event_id', lower(hex(m.event_id)), 'pubkey', lower(hex(m.pubkey)), 'state', m.state,
  'attempts', m.attempts, 'next_at', CASE m.state WHEN 'waiting' THEN m.next_at END,
  'created_at', m.created_at, 'settled_at', m.settled_at, 'status', m.status, 'error', m.error,
  'key', (SELECT i.key FROM idempotency AS i WHERE i.job = m.job)))
FROM (
  SELECT * FROM hook_messages WHERE number IN (SELECT value FROM json_each(:numbers))
  UNION ALL SELECT * FROM (
    SELECT * FROM hook_messages WHERE hook = :hook AND number < :before AND (:id IS NULL OR id = :id)
    ORDER BY number DESC LIMIT :limit)) AS m;
