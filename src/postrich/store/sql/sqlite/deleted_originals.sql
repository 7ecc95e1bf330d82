-- Jobs that a deletion or vanish request of :pubkey takes back: by event id, by address, or all
-- up to a time. Only a vanish looks at every job.
SELECT json_group_array(id) FROM jobs
WHERE id IN (
    SELECT job FROM identities WHERE event_id IN (SELECT unhex(value) FROM json_each(:event_ids))
    UNION SELECT id FROM jobs
      WHERE address IN (SELECT value FROM json_each(:addresses)) AND created_at <= :created_at
    UNION SELECT id FROM jobs
      WHERE :everything_until IS NOT NULL AND created_at <= :everything_until)
  AND pubkey = unhex(:pubkey) AND id <> :by AND kind <> 5
  AND (finished_at IS NULL OR state = 'parked');
