-- Everything noted about a job, in order.
SELECT coalesce(json_agg(json_build_object('at', s.at, 'what', s.what, 'relay', t.url,
  'attempt', s.attempt, 'detail', s.detail) ORDER BY s.at, s.id), '[]'::json) AS json
FROM story AS s LEFT JOIN destinations AS t ON t.id = s.destination WHERE s.job = :job::bigint;
