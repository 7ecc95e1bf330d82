-- Give URLs their numbers. Rows: [url, trusted]; whom the owner once trusted stays trusted.
INSERT INTO destinations (url, trusted)
SELECT value ->> 0, max(value ->> 1) FROM json_each(:rows) WHERE true GROUP BY value ->> 0
ON CONFLICT (url) DO UPDATE SET trusted = 1 WHERE excluded.trusted AND NOT destinations.trusted;
