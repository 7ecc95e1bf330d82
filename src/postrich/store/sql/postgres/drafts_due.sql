-- Drafts of one account that are to be signed now: urgent ones first, then the earliest (A8).
SELECT j.id, j.policy, j.sign_attempts, j.expires_at,
  replace(convert_from(p.body, 'UTF8'), chr(64976), chr(64976) || '1')
FROM (SELECT * FROM jobs
  WHERE state = 'pending-sign' AND pubkey = decode(:pubkey, 'hex') AND stage_at <= :now::bigint
    AND id NOT IN (SELECT unnest(:holding::bigint[]))
  ORDER BY priority, stage_at, id LIMIT :limit::bigint) AS j
JOIN payloads AS p ON p.job = j.id ORDER BY j.priority, j.stage_at, j.id;
