-- What lanes know of their relays: [[destination, health], …].
INSERT INTO relay_health (destination, body) SELECT value ->> 0, value ->> 1 FROM json_each(:rows)
WHERE true
ON CONFLICT (destination) DO UPDATE SET body = excluded.body;
