-- Forget a weekly grid; what is scheduled by it stays.
DELETE FROM grids WHERE pubkey = unhex(:pubkey) AND name = :name;
