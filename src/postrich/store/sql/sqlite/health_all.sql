-- What is known of every relay.
SELECT json_group_array(json(body)) FROM relay_health;
