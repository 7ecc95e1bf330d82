-- Keep all that an owner holds alive; what it gave up stays free.
WITH mine AS MATERIALIZED (SELECT name FROM leases
  WHERE owner = :owner::text AND lease_until > 0 ORDER BY name FOR UPDATE)
UPDATE leases SET lease_until = :until::bigint FROM mine
WHERE leases.name = mine.name AND leases.owner = :owner AND leases.lease_until > 0;
