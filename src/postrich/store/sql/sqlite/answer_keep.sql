-- Keep what a request was answered; the first answer counts.
INSERT OR IGNORE INTO answers (caller, key, fingerprint, status, body, at)
VALUES (:caller, :key, :fingerprint, :status, :body, :at);
