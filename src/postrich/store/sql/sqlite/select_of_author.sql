-- The jobs of one author that a filter means, newest first: [[id, state, signed, policy], …].
SELECT json_group_array(json_array(id, state, signed, policy)) FROM (
  SELECT id, state, signed, policy FROM all_jobs AS j
  WHERE pubkey = unhex(:pubkey) AND id < coalesce(:before, 9223372036854775807)
    AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
    AND (:kind IS NULL OR kind = :kind)
    AND (:open_only = 0 OR finished_at IS NULL)
    AND (:relay IS NULL OR EXISTS (
      SELECT 1 FROM all_deliveries AS d JOIN destinations AS t ON t.id = d.destination
      WHERE d.job = j.id AND t.url = :relay))
  ORDER BY id DESC LIMIT :limit);
