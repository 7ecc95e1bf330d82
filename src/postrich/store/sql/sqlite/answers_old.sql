-- Forget old answers.
DELETE FROM answers WHERE (caller, key) IN (
  SELECT caller, key FROM answers WHERE at < :before ORDER BY at LIMIT :limit);
