-- Remember the newest version of an address.
INSERT INTO addresses (address, created_at, event_id)
VALUES (:address, :created_at, unhex(:event_id))
ON CONFLICT (address) DO UPDATE SET created_at = excluded.created_at, event_id = excluded.event_id;
