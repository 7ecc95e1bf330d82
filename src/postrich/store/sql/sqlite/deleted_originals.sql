-- Jobs that a deletion or vanish request of :pubkey takes back.
SELECT json_group_array(id) FROM jobs
WHERE pubkey = unhex(:pubkey) AND id <> :by AND kind <> 5
  AND (finished_at IS NULL OR state = 'parked')
  AND (event_id IN (SELECT unhex(value) FROM json_each(:event_ids))
    OR (address IN (SELECT value FROM json_each(:addresses)) AND created_at <= :created_at)
    OR created_at <= :everything_until);
