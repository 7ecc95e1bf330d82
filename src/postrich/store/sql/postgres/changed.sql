-- What differs after every commit of anybody.
SELECT hashtextextended(pg_current_snapshot()::text, 0);
