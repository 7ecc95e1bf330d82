-- Which of the ids belong to another job: [[index, job], …].
SELECT json_group_array(json_array(e.key, i.job))
FROM json_each(:ids) AS e JOIN identities AS i ON i.event_id = unhex(e.value)
WHERE i.job <> :base + e.key;
