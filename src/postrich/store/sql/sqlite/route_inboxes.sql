-- Who reads where. Rows: [job, pubkey, destination].
INSERT OR IGNORE INTO inboxes (job, pubkey, destination)
SELECT value ->> 0, unhex(value ->> 1), value ->> 2 FROM json_each(:rows);
