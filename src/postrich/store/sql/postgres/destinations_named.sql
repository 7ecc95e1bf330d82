-- The URLs of destinations: [id, url].
SELECT id, url FROM destinations WHERE id = ANY(:numbers::integer[]);
