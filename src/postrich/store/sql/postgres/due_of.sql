-- A job's own hour.
SELECT due_at FROM jobs WHERE id = :job::bigint;
