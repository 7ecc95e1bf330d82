-- Events that were handed in before: [[event id, job, state, due_at], …]; of forgotten jobs
-- only what became of them is known.
SELECT json_group_array(json_array(lower(hex(i.event_id)), i.job,
  coalesce(j.state, h.state, i.ended, 'published'), coalesce(j.due_at, h.due_at)))
FROM json_each(:ids) JOIN identities AS i ON i.event_id = unhex(value)
LEFT JOIN jobs AS j ON j.id = i.job LEFT JOIN job_history AS h ON h.id = i.job;
