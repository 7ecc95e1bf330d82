-- What a hook's server said last. A success ends a row of failures.
UPDATE hooks SET answered_at = :now, answer_status = :status, answer_text = :text,
  failing_since = CASE WHEN :ok THEN NULL ELSE coalesce(failing_since, :now) END,
  failures = CASE WHEN :ok THEN 0 ELSE failures + 1 END
WHERE id = :id;
