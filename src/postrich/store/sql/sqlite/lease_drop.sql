-- Give up one lease, or with :name NULL all of an owner's: the next holder need not wait.
UPDATE leases SET lease_until = 0 WHERE owner = :owner AND (:name IS NULL OR name = :name);
