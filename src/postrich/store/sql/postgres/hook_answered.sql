-- What a hook's server said last. A success ends a row of failures.
UPDATE hooks SET answered_at = :now::bigint, answer_status = :status::integer,
  answer_text = :text::text,
  failing_since = CASE WHEN :ok::integer = 1 THEN NULL ELSE coalesce(failing_since, :now) END,
  failures = CASE WHEN :ok = 1 THEN 0 ELSE failures + 1 END
WHERE id = :id::text;
