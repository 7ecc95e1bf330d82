-- Who holds what, lapsed or not: [name, owner, epoch, until].
SELECT name, owner, epoch, lease_until FROM leases WHERE lease_until > 0;
