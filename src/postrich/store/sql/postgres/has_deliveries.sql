-- Whether a job was routed already.
SELECT EXISTS (SELECT 1 FROM all_deliveries WHERE job = :job::bigint);
