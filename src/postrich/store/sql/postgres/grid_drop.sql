-- Forget a weekly grid; what is scheduled by it stays.
DELETE FROM grids WHERE pubkey = decode(:pubkey::text, 'hex') AND name = :name::text;
