-- The signed bytes take the draft's place.
UPDATE payloads SET body = :body::bytea WHERE job = :job::bigint;
