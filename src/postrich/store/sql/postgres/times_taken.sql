-- When an author's posts are due, from one time to another.
SELECT due_at FROM jobs WHERE pubkey = decode(:pubkey::text, 'hex')
  AND due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign')
  AND due_at BETWEEN :first::bigint AND :last::bigint;
