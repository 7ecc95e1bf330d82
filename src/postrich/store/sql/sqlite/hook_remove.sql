-- Forget a hook and what it was told.
DELETE FROM hooks WHERE id = :id;
DELETE FROM hook_messages WHERE hook = :id;
