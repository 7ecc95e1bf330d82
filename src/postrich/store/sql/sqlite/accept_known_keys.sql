-- Which of the keys were used: [[key, job], …].
SELECT json_group_array(json_array(k.key, k.job))
FROM json_each(:keys) AS e JOIN idempotency AS k ON k.key = e.value;
