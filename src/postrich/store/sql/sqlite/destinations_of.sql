-- The numbers of URLs: [[url, id], …].
SELECT json_group_array(json_array(url, id)) FROM destinations
WHERE url IN (SELECT value FROM json_each(:urls));
