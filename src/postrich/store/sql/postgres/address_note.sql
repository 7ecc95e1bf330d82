-- Remember the newest version of an address.
INSERT INTO addresses (address, full_address, created_at, event_id)
VALUES (sha256(convert_to(:address::text, 'UTF8')), :address::text, :created_at::bigint,
  decode(:event_id, 'hex'))
ON CONFLICT (address) DO UPDATE SET full_address = excluded.full_address,
  created_at = excluded.created_at, event_id = excluded.event_id;
