-- What lanes know of their relays: [destination, health].
INSERT INTO relay_health (destination, body)
SELECT DISTINCT ON (destination) destination, body
FROM unnest(:rows.0::integer[], :rows.1::text[]) WITH ORDINALITY AS e (destination, body, place)
ORDER BY destination, place DESC
ON CONFLICT (destination) DO UPDATE SET body = excluded.body;
