-- Which of the keys belong to another job. Rows: [key, job] → [[job, other job], …].
SELECT json_group_array(json_array(e.value ->> 1, k.job))
FROM json_each(:rows) AS e JOIN idempotency AS k ON k.key = e.value ->> 0
WHERE k.job <> e.value ->> 1;
