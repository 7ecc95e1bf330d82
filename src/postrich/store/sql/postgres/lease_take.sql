-- Take a lease that is free, lapsed or mine; returns its epoch, or nothing where it is held.
INSERT INTO leases AS l (name, owner, epoch, lease_until)
VALUES (:name::text, :owner::text, 1, :until::bigint)
ON CONFLICT (name) DO UPDATE SET
  epoch = l.epoch + (l.owner <> excluded.owner)::integer, owner = excluded.owner,
  lease_until = excluded.lease_until
WHERE l.owner = excluded.owner OR l.lease_until <= :now::bigint
RETURNING epoch;
