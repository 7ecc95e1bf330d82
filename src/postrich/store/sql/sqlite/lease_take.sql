-- Take a lease that is free, lapsed or mine; returns its epoch, or nothing where it is held.
INSERT INTO leases (name, owner, epoch, lease_until) VALUES (:name, :owner, 1, :until)
ON CONFLICT (name) DO UPDATE SET
  epoch = epoch + (owner <> excluded.owner), owner = excluded.owner,
  lease_until = excluded.lease_until
WHERE owner = excluded.owner OR lease_until <= :now
RETURNING epoch;
