-- Posts get their names. Rows: [id, pubkey, job, crosspost]; a name that is there is left alone.
INSERT OR IGNORE INTO posts (id, pubkey, job, crosspost)
SELECT value ->> 0, unhex(value ->> 1), value ->> 2, value ->> 3 FROM json_each(:rows);
