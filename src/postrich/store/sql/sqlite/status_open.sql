-- What waits, from one covering index: [[state, count, sign attempts, oldest], …].
SELECT json_group_array(json_array(state, n, tries, oldest)) FROM (
  SELECT state, count(*) AS n, sum(sign_attempts) AS tries, min(accepted_at) AS oldest
  FROM jobs INDEXED BY jobs_open WHERE finished_at IS NULL GROUP BY state);
