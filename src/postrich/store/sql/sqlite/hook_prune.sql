-- Forget messages past their age.
DELETE FROM hook_messages WHERE number IN (
  SELECT number FROM hook_messages WHERE created_at <= :before ORDER BY created_at LIMIT :limit);
