-- What lanes need of jobs: [[job, event_id, pubkey, created_at, priority, expires_at, policy,
-- body], …].
SELECT json_group_array(json_array(j.id, lower(hex(j.event_id)), lower(hex(j.pubkey)),
  j.created_at, j.priority, j.expires_at, j.policy, CAST(p.body AS TEXT)))
FROM json_each(:jobs) AS e JOIN jobs AS j ON j.id = e.value JOIN payloads AS p ON p.job = j.id;
