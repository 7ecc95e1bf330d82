-- Idempotency keys that were used: [[key, event id, job, state, due_at], …].
SELECT json_group_array(json_array(k.key, lower(hex(coalesce(j.event_id, h.event_id))), k.job,
  coalesce(j.state, h.state), coalesce(j.due_at, h.due_at)))
FROM json_each(:keys) JOIN idempotency AS k ON k.key = value
LEFT JOIN jobs AS j ON j.id = k.job LEFT JOIN job_history AS h ON h.id = k.job
WHERE coalesce(j.id, h.id) IS NOT NULL;
