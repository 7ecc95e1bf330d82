-- What a request was answered: [[caller, key, fingerprint, status, body, at], …].
SELECT json_group_array(json_array(caller, key, fingerprint, status, body, at))
FROM answers WHERE caller = :caller AND key = :key;
