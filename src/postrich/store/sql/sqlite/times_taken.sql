-- When an author's posts are due, from one time to another.
SELECT json_group_array(due_at) FROM jobs WHERE pubkey = unhex(:pubkey)
  AND due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign')
  AND due_at BETWEEN :first AND :last;
