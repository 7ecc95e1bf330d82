-- A worker leaves, or is known to be dead: its leases are free at once.
UPDATE leases SET lease_until = 0 WHERE owner = :owner;
DELETE FROM workers WHERE owner = :owner;
