-- Give URLs their numbers.
INSERT OR IGNORE INTO destinations (url) SELECT value FROM json_each(:urls);
