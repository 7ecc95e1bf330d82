-- The newest known version of an address: created_at and event id.
SELECT created_at, encode(event_id, 'hex') FROM addresses
WHERE address = sha256(convert_to(:address::text, 'UTF8')) AND event_id IS NOT NULL;
