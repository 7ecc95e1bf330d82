-- The database's own clock in milliseconds.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
