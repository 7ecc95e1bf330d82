-- What a person should look at: [[state, count], …].
SELECT json_group_array(json_array(state, n)) FROM (
  SELECT state, count(*) AS n FROM jobs WHERE state IN ('failed', 'parked') GROUP BY state);
