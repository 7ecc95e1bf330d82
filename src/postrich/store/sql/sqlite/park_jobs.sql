-- A person must act: say why.
UPDATE jobs SET state = 'parked', stage_at = NULL, finished_at = :now, error_code = :code,
  error_text = :text
WHERE id IN (SELECT value FROM json_each(:jobs));
