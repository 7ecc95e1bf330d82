-- What is known of a series' occurrences between two times, both included:
-- [[series, at, state, job, template, detail], …].
SELECT json_group_array(json_array(series, at, state, job, template, detail))
FROM (SELECT * FROM occurrences WHERE series = :series AND at BETWEEN :since AND :until
  ORDER BY at LIMIT :limit);
