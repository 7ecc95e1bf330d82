-- Where that went which a deletion takes back, or with :everything all of its author.
SELECT json_group_array(DISTINCT t.url) FROM (
  SELECT d.destination FROM all_deliveries AS d WHERE d.state <> 'cancelled' AND d.job IN (
    SELECT job FROM identities WHERE event_id IN (SELECT unhex(value) FROM json_each(:event_ids))
    UNION SELECT id FROM jobs WHERE address IN (SELECT value FROM json_each(:addresses))
    UNION SELECT id FROM job_history WHERE address IN (SELECT value FROM json_each(:addresses))
    UNION SELECT id FROM job_history WHERE :everything AND pubkey = unhex(:pubkey)
    UNION SELECT id FROM jobs WHERE :everything AND pubkey = unhex(:pubkey))
) AS d JOIN destinations AS t ON t.id = d.destination;
