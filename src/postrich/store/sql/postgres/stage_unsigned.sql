-- A signer did not sign: try again at :next_at, or wait for a person (state parked or failed).
UPDATE jobs SET state = :state::text, sign_attempts = sign_attempts + 1, stage_at = :next_at::bigint,
  error_code = :code::text, error_text = :text::text,
  finished_at = CASE WHEN :next_at IS NULL THEN :now::bigint END
WHERE id = :job::bigint AND state = 'pending-sign';
