-- Forget a hook and what it was told. Hooks are locked before messages, as in all verbs.
DELETE FROM hooks WHERE id = :id::text;
DELETE FROM hook_messages WHERE hook = :id::text;
