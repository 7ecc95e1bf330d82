-- Whether any of the targets is new to the job.
SELECT count(*) FROM unnest(:urls::text[]) AS e LEFT JOIN destinations AS t ON t.url = e
WHERE NOT EXISTS (
  SELECT 1 FROM all_deliveries AS d WHERE d.job = :job::bigint AND d.destination = t.id);
