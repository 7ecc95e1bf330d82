-- What is known of a series' occurrences between two times, both included:
-- [series, at, state, job, template, detail].
SELECT series, at, state, job, template, detail FROM occurrences
WHERE series = :series::text AND at BETWEEN :since::bigint AND :until::bigint
ORDER BY at LIMIT :limit::bigint;
