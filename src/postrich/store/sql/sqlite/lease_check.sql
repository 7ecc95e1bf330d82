-- Whether the lease is still held under this epoch.
SELECT count(*) FROM leases WHERE name = :name AND owner = :owner AND epoch = :epoch;
