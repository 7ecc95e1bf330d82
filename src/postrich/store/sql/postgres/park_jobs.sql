-- A person must act: say why.
UPDATE jobs SET state = 'parked', stage_at = NULL, finished_at = :now::bigint,
  error_code = :code::text, error_text = :text::text
WHERE id = ANY(:jobs::bigint[]);
