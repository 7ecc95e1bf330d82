-- Drafts of one account that are to be signed now: urgent ones first, then the earliest (A8).
SELECT json_group_array(json_array(id, policy, sign_attempts, expires_at,
  (SELECT CAST(body AS TEXT) FROM payloads WHERE job = id)))
FROM (
  SELECT * FROM jobs
  WHERE state = 'pending-sign' AND pubkey = unhex(:pubkey) AND stage_at <= :now
    AND id NOT IN (SELECT value FROM json_each(:holding))
  ORDER BY priority, stage_at LIMIT :limit);
