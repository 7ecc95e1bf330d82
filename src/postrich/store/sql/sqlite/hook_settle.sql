-- What became of attempts. Rows: [number, state, attempts, next_at, status, error].
UPDATE hook_messages SET state = value ->> 1, attempts = value ->> 2, next_at = value ->> 3,
  status = value ->> 4, error = value ->> 5,
  settled_at = CASE value ->> 1 WHEN 'waiting' THEN NULL ELSE :now END
FROM json_each(:rows) WHERE hook_messages.number = value ->> 0 AND hook_messages.state = 'waiting';
