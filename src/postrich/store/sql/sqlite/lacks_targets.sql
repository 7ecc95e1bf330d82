-- Whether any of the targets is new to the job.
SELECT count(*) FROM json_each(:urls) AS e LEFT JOIN destinations AS t ON t.url = e.value
WHERE NOT EXISTS (SELECT 1 FROM all_deliveries AS d WHERE d.job = :job AND d.destination = t.id);
