-- What a request was answered: [caller, key, fingerprint, status, body, at].
SELECT caller, key, fingerprint, status, body, at
FROM answers WHERE caller = :caller::text AND key = :key::text;
