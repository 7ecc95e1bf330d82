-- Who waits for whom: [[job, needs], …].
INSERT OR IGNORE INTO dependencies (job, needs)
SELECT value ->> 0, value ->> 1 FROM json_each(:rows);
