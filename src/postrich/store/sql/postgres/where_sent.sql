-- Where that went which a deletion takes back, or with :everything all of its author.
SELECT url FROM destinations WHERE id = ANY(ARRAY(
  SELECT destination FROM all_deliveries WHERE state <> 'cancelled' AND job = ANY(ARRAY(
    SELECT i.job FROM unnest(:event_ids::text[]) AS e
      JOIN identities AS i ON i.event_id = decode(e, 'hex')
    UNION SELECT j.id FROM unnest(:addresses::text[]) AS a
      JOIN all_jobs AS j ON j.address = sha256(convert_to(a, 'UTF8'))
    UNION SELECT id FROM all_jobs
      WHERE :everything::integer = 1 AND pubkey = decode(:pubkey, 'hex')))));
