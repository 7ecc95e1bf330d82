-- These relays are being probed.
DELETE FROM nudges WHERE destination = ANY(:destinations::integer[]);
