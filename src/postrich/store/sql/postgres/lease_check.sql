-- Whether the lease is still held under this epoch; then it stays so until the commit.
SELECT 1 FROM leases WHERE name = :name::text AND owner = :owner::text AND epoch = :epoch::bigint
FOR SHARE;
