-- The signed bytes take the draft's place.
UPDATE payloads SET body = :body WHERE job = :job;
