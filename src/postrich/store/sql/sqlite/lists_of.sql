-- What is known of people's lists. Keys: [pubkey, kind] → [[pubkey, kind, looked_at, body], …].
SELECT json_group_array(json_array(value ->> 0, l.kind, l.looked_at, l.body))
FROM json_each(:keys) JOIN lists AS l ON l.pubkey = unhex(value ->> 0) AND l.kind = value ->> 1;
