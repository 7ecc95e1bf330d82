-- Keep all of an owner's leases alive.
UPDATE leases SET lease_until = :until WHERE owner = :owner;
