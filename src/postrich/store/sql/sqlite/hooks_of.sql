-- Hooks by id, or of a public key, or all (both null), the oldest first.
SELECT json_group_array(json_object(
  'id', id, 'pubkey', lower(hex(pubkey)), 'url', url, 'events', json(events), 'state', state,
  'reason', reason, 'created_at', created_at, 'key', key, 'generation', generation,
  'rotated_at', rotated_at, 'failing_since', failing_since, 'failures', failures,
  'answered_at', answered_at, 'answer_status', answer_status, 'answer_text', answer_text))
FROM (SELECT * FROM hooks
  WHERE (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
    AND (:pubkey IS NULL OR pubkey = unhex(:pubkey))
  ORDER BY created_at, id);
