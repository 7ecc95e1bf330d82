-- [[job, state, signed, event id, finished], …] of those that exist, finished or not.
SELECT json_group_array(json_array(id, state, signed, lower(hex(event_id)),
  finished_at IS NOT NULL)) FROM (
  SELECT id, state, signed, event_id, finished_at FROM jobs
  WHERE id IN (SELECT value FROM json_each(:jobs))
  UNION ALL SELECT id, state, signed, event_id, finished_at FROM job_history
  WHERE id IN (SELECT value FROM json_each(:jobs)));
