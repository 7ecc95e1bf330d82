-- Jobs by the beginning of their event id, at most three.
SELECT job FROM identities
WHERE event_id >= decode(:low, 'hex') AND event_id <= decode(:high, 'hex') ORDER BY event_id LIMIT 3;
