-- Stop what still waits of :jobs, at :relays only where that is not null; nothing delivered is
-- touched.
UPDATE deliveries SET state = :state::text, settled_at = :now::bigint, code = :state,
  detail = :detail::text
WHERE job = ANY(:jobs::bigint[]) AND state IN ('waiting', 'parked')
  AND (:relays::text[] IS NULL OR destination = ANY(ARRAY(
    SELECT id FROM destinations WHERE url = ANY(:relays))));
