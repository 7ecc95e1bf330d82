-- Jobs as their owners see them, newest first.
SELECT json_group_array(json_object(
  'id', j.id, 'event_id', lower(hex(j.event_id)), 'pubkey', lower(hex(j.pubkey)),
  'kind', j.kind, 'created_at', j.created_at, 'state', j.state, 'priority', j.priority,
  'goal', j.goal, 'policy', j.policy, 'accepted_at', j.accepted_at, 'due_at', j.due_at,
  'expires_at', j.expires_at, 'published_at', j.published_at, 'finished_at', j.finished_at,
  'sign_attempts', j.sign_attempts, 'stage_at', j.stage_at, 'error_code', j.error_code,
  'error_text', j.error_text, 'size', j.size, 'signed', j.signed, 'targets', j.targets,
  'body', (SELECT CAST(body AS TEXT) FROM payloads WHERE job = j.id),
  'waits_for', json((SELECT json_group_array(needs) FROM dependencies WHERE job = j.id)),
  'deliveries', json((SELECT json_group_array(json_object(
      'relay', t.url, 'reason', coalesce(d.reason, ''), 'state', d.state,
      'attempts', d.attempts, 'next_at', CASE d.state WHEN 'waiting' THEN d.next_at END,
      'code', d.code, 'detail', coalesce(d.detail, ''), 'settled_at', d.settled_at))
    FROM (
      SELECT * FROM deliveries WHERE job = j.id
      UNION ALL SELECT * FROM delivery_history WHERE job = j.id
    ) AS d JOIN destinations AS t ON t.id = d.destination))))
FROM (
  SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs))
  UNION ALL SELECT * FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs))
  ORDER BY id DESC) AS j;
