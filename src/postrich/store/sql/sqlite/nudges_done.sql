-- These relays are being probed.
DELETE FROM nudges WHERE destination IN (SELECT value FROM json_each(:destinations));
