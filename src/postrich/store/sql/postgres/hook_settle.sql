-- What became of attempts. Rows: [number, state, attempts, next_at, status, error].
UPDATE hook_messages SET state = e.state, attempts = e.attempts, next_at = e.next_at,
  status = e.status, error = e.error,
  settled_at = CASE e.state WHEN 'waiting' THEN NULL ELSE :now::bigint END
FROM unnest(:rows.0::bigint[], :rows.1::text[], :rows.2::integer[], :rows.3::bigint[],
  :rows.4::integer[], :rows.5::text[]) AS e (number, state, attempts, next_at, status, error)
WHERE hook_messages.number = e.number AND hook_messages.state = 'waiting';
