-- Tell a hook nothing more: what waits has failed, and may be replayed.
UPDATE hooks SET state = 'disabled', reason = :reason::text WHERE id = :id::text;
UPDATE hook_messages SET state = 'failed', settled_at = :now::bigint,
  error = CASE error WHEN '' THEN 'the hook was disabled' ELSE error END
WHERE hook = :id::text AND state = 'waiting';
