-- What is known of every relay.
SELECT ('[' || coalesce(string_agg(body, ','), '') || ']')::json AS json FROM relay_health;
