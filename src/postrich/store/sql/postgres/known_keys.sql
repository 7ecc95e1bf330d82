-- Idempotency keys that were used: [key, event id, job, state, due_at].
SELECT e, encode(coalesce(j.event_id, h.event_id), 'hex'), k.job, coalesce(j.state, h.state),
  coalesce(j.due_at, h.due_at)
FROM unnest(:keys::text[]) AS e JOIN idempotency AS k ON k.key = sha256(convert_to(e, 'UTF8'))
LEFT JOIN jobs AS j ON j.id = k.job LEFT JOIN job_history AS h ON h.id = k.job
WHERE coalesce(j.id, h.id) IS NOT NULL;
