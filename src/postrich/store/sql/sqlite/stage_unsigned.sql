-- A signer did not sign: try again at :next_at, or wait for a person (state parked or failed).
UPDATE jobs SET state = :state, sign_attempts = sign_attempts + 1, stage_at = :next_at,
  error_code = :code, error_text = :text,
  finished_at = CASE WHEN :next_at IS NULL THEN :now END
WHERE id = :job AND state = 'pending-sign';
