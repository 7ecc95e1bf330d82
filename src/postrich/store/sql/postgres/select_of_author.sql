-- The jobs of one author that a filter means, newest first: [id, state, signed, policy].
SELECT id, state, signed, policy FROM all_jobs AS j
WHERE pubkey = decode(:pubkey::text, 'hex')
  AND id < coalesce(:before::bigint, 9223372036854775807)
  AND (:states::text[] IS NULL OR state = ANY(:states))
  AND (:kind::bigint IS NULL OR kind = :kind)
  AND (:open_only::integer = 0 OR finished_at IS NULL)
  AND (:relay::text IS NULL OR (
    SELECT count(*) FROM all_deliveries AS d JOIN destinations AS t ON t.id = d.destination
    WHERE d.job = j.id AND t.url = :relay) > 0)
ORDER BY id DESC LIMIT :limit::bigint;
