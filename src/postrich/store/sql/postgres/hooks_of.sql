-- Hooks by id, or of a public key, or all (both null), the oldest first.
SELECT coalesce(json_agg(json_build_object(
  'id', id, 'pubkey', encode(pubkey, 'hex'), 'url', url, 'events', events::json, 'state', state,
  'reason', reason, 'created_at', created_at, 'key', key, 'generation', generation,
  'rotated_at', rotated_at, 'failing_since', failing_since, 'failures', failures,
  'answered_at', answered_at, 'answer_status', answer_status, 'answer_text', answer_text)
  ORDER BY created_at, id), '[]'::json) AS json
FROM hooks
WHERE (:ids::text[] IS NULL OR id = ANY(:ids))
  AND (:pubkey::text IS NULL OR pubkey = decode(:pubkey, 'hex'));
