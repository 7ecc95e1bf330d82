-- A person retried these jobs: their relays shall be probed at once.
INSERT OR IGNORE INTO nudges (destination)
SELECT DISTINCT destination FROM deliveries
WHERE job IN (SELECT value FROM json_each(:jobs)) AND state = 'waiting';
