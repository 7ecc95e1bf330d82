-- Keep what a search found. Rows: [pubkey, kind, looked_at, body or null, created_at, id]; a
-- search that found nothing, or an older list, takes nothing away.
INSERT INTO lists AS l (pubkey, kind, looked_at, body, created_at, event_id)
SELECT DISTINCT ON (e.pubkey, e.kind) decode(e.pubkey, 'hex'), e.kind,
  max(e.looked_at) OVER (PARTITION BY e.pubkey, e.kind), e.body, e.created_at, e.event_id
FROM unnest(:rows.0::text[], :rows.1::integer[], :rows.2::bigint[], :rows.3::text[],
  :rows.4::bigint[], :rows.5::text[]) AS e (pubkey, kind, looked_at, body, created_at, event_id)
ORDER BY e.pubkey, e.kind, e.body IS NULL, e.created_at DESC, e.event_id
ON CONFLICT (pubkey, kind) DO UPDATE SET looked_at = greatest(l.looked_at, excluded.looked_at),
  body = CASE WHEN excluded.body IS NOT NULL AND (l.body IS NULL
      OR (excluded.created_at, l.event_id) > (l.created_at, excluded.event_id))
    THEN excluded.body ELSE l.body END,
  created_at = CASE WHEN excluded.body IS NOT NULL AND (l.body IS NULL
      OR (excluded.created_at, l.event_id) > (l.created_at, excluded.event_id))
    THEN excluded.created_at ELSE l.created_at END,
  event_id = CASE WHEN excluded.body IS NOT NULL AND (l.body IS NULL
      OR (excluded.created_at, l.event_id) > (l.created_at, excluded.event_id))
    THEN excluded.event_id ELSE l.event_id END;
