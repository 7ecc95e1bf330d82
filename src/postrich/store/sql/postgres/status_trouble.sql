-- What a person should look at: [state, count].
SELECT state, count(*) FROM jobs WHERE state IN ('failed', 'parked') GROUP BY state;
