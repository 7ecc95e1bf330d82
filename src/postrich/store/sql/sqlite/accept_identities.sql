-- Claim event ids for new jobs; ids that have a job already are left alone.
INSERT OR IGNORE INTO identities (event_id, job)
SELECT unhex(value), :base + key FROM json_each(:ids) WHERE value IS NOT NULL;
