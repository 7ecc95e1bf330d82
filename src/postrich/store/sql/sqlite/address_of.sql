-- The newest known version of an address: created_at and event id.
SELECT created_at, lower(hex(event_id)) FROM addresses WHERE address = :address;
