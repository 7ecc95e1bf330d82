-- Keep all that an owner holds alive; what it gave up stays free.
UPDATE leases SET lease_until = :until WHERE owner = :owner AND lease_until > 0;
