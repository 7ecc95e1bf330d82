-- [[job, state, signed, event id], …] of those that exist, finished or not.
SELECT json_group_array(json_array(id, state, signed, lower(hex(event_id)))) FROM (
  SELECT id, state, signed, event_id FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs))
  UNION ALL SELECT id, state, signed, event_id FROM job_history
  WHERE id IN (SELECT value FROM json_each(:jobs)));
