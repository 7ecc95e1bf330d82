-- Keep what a search found. Rows: [pubkey, kind, looked_at, body or null, …]; a search that
-- found nothing, or an older list, takes nothing away.
INSERT INTO lists (pubkey, kind, looked_at, body)
SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3 FROM json_each(:rows) WHERE true
ON CONFLICT (pubkey, kind) DO UPDATE SET looked_at = max(looked_at, excluded.looked_at),
  body = CASE WHEN excluded.body IS NULL THEN body WHEN body IS NULL
    OR (excluded.body ->> 'created_at', body ->> 'id') > (body ->> 'created_at', excluded.body ->> 'id')
    THEN excluded.body ELSE body END;
