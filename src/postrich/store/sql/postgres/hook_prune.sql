-- Forget messages past their age.
DELETE FROM hook_messages WHERE number = ANY(ARRAY(
  SELECT number FROM hook_messages WHERE created_at <= :before::bigint
  ORDER BY created_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));
