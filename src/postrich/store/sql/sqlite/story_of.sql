-- Everything noted about a job, in order.
SELECT json_group_array(json_object('at', at, 'what', what, 'relay', url, 'attempt', attempt,
  'detail', detail))
FROM (SELECT s.*, t.url FROM story AS s LEFT JOIN destinations AS t ON t.id = s.destination
  WHERE s.job = :job ORDER BY s.at, s.id);
