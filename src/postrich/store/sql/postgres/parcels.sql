-- What lanes need of jobs: [job, event_id, pubkey, created_at, priority, expires_at, policy, body].
SELECT j.id, encode(j.event_id, 'hex'), encode(j.pubkey, 'hex'), j.created_at, j.priority,
  j.expires_at, j.policy, replace(convert_from(p.body, 'UTF8'), chr(64976), chr(64976) || '1')
FROM unnest(:jobs::bigint[]) AS e JOIN jobs AS j ON j.id = e JOIN payloads AS p ON p.job = j.id;
