-- A worker leaves, or is known to be dead: its leases are free at once.
WITH mine AS MATERIALIZED (SELECT name FROM leases WHERE owner = :owner::text ORDER BY name FOR UPDATE),
  gone AS (DELETE FROM workers WHERE owner = :owner)
UPDATE leases SET lease_until = 0 FROM mine WHERE leases.name = mine.name AND owner = :owner;
