-- End jobs before their goal; what is published stays published.
UPDATE jobs SET state = CASE state WHEN 'published' THEN state ELSE :state END,
  finished_at = coalesce(finished_at, :now), stage_at = NULL
WHERE id IN (SELECT value FROM json_each(:jobs));
