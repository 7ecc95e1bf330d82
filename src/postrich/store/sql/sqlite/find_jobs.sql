-- Jobs by the beginning of their event id, at most three.
SELECT json_group_array(job) FROM (
  SELECT job FROM identities WHERE event_id >= unhex(:low) AND event_id <= unhex(:high) LIMIT 3);
