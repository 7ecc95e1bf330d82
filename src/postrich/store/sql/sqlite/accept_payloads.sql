-- Keep the events' JSON; null where the event has a job already.
INSERT INTO payloads (job, body)
SELECT :base + key, value FROM json_each(:bodies) WHERE value IS NOT NULL;
