-- Messages by number, or of a hook the newest first (then :id, :before and :limit count).
SELECT coalesce(json_agg(json_build_object(
  'number', m.number, 'id', m.id, 'hook', m.hook, 'kind', m.kind, 'job', m.job,
  'event_id', coalesce(encode(m.event_id, 'hex'), ''), 'pubkey', encode(m.pubkey, 'hex'),
  'state', m.state, 'attempts', m.attempts,
  'next_at', CASE m.state WHEN 'waiting' THEN m.next_at END,
  'created_at', m.created_at, 'settled_at', m.settled_at, 'status', m.status, 'error', m.error,
  'key', (SELECT i.full_key FROM idempotency AS i WHERE i.job = m.job LIMIT 1))), '[]'::json) AS json
FROM (
  SELECT * FROM hook_messages WHERE number = ANY(:numbers::bigint[])
  UNION ALL (
    SELECT * FROM hook_messages WHERE hook = :hook::text AND number < :before::bigint
      AND (:id::text IS NULL OR id = :id)
    ORDER BY number DESC LIMIT :limit::bigint)) AS m;
