-- The URLs of destinations: [[id, url], …].
SELECT json_group_array(json_array(id, url)) FROM destinations
WHERE id IN (SELECT value FROM json_each(:numbers));
