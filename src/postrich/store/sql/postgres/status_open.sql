-- What waits, from one covering index: [state, count, sign attempts, oldest].
SELECT state, count(*), sum(sign_attempts)::bigint, min(accepted_at)
FROM jobs WHERE finished_at IS NULL GROUP BY state;
