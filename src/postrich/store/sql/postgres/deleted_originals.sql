-- Jobs that a deletion or vanish request of :pubkey takes back: by event id, by address, or all
-- up to a time. Only a vanish looks at every job.
SELECT id FROM jobs
WHERE id = ANY(ARRAY(
    SELECT i.job FROM unnest(:event_ids::text[]) AS e
      JOIN identities AS i ON i.event_id = decode(e, 'hex')
    UNION SELECT j.id FROM unnest(:addresses::text[]) AS a
      JOIN jobs AS j ON j.address = sha256(convert_to(a, 'UTF8'))
      WHERE j.created_at <= :created_at::bigint
    UNION SELECT id FROM jobs WHERE created_at <= :everything_until::bigint
      AND :everything_until IS NOT NULL))
  AND pubkey = decode(:pubkey, 'hex') AND id <> :by::bigint AND kind <> 5
  AND (finished_at IS NULL OR state = 'parked')
ORDER BY id FOR UPDATE;
