-- Send again: one message (:id) whatever became of it, or those that failed since :since.
UPDATE hook_messages SET state = 'waiting', attempts = 0, next_at = :now::bigint, settled_at = NULL
WHERE hook = :hook::text AND state <> 'waiting'
  AND CASE WHEN :id::text IS NULL THEN state = 'failed' AND created_at >= :since::bigint
    ELSE id = :id END;
