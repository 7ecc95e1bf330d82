-- Keep what a request was answered; the first answer counts.
INSERT INTO answers (caller, key, fingerprint, status, body, at)
VALUES (:caller::text, :key::text, :fingerprint::text, :status::integer, :body::text, :at::bigint)
ON CONFLICT (caller, key) DO NOTHING;
