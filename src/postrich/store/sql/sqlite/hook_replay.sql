-- Send again: one message (:id) whatever became of it, or those that failed since :since.
UPDATE hook_messages SET state = 'waiting', attempts = 0, next_at = :now, settled_at = NULL
WHERE hook = :hook AND state <> 'waiting'
  AND CASE WHEN :id IS NULL THEN state = 'failed' AND created_at >= :since ELSE id = :id END;
