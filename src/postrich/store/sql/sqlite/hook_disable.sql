-- Tell a hook nothing more: what waits has failed, and may be replayed.
UPDATE hooks SET state = 'disabled', reason = :reason WHERE id = :id;
UPDATE hook_messages SET state = 'failed', settled_at = :now,
  error = CASE error WHEN '' THEN 'the hook was disabled' ELSE error END
WHERE hook = :id AND state = 'waiting';
