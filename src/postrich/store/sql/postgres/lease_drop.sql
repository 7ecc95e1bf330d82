-- Give up one lease: the next holder need not wait.
UPDATE leases SET lease_until = 0 WHERE owner = :owner::text AND name = :name::text;
