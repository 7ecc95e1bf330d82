-- The same line for several jobs.
INSERT INTO story (job, at, what, detail) SELECT value, :now, :what, :detail FROM json_each(:jobs);
