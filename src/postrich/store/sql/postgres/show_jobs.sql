-- Jobs as their owners see them, newest first.
SELECT coalesce(json_agg(json_build_object(
  'id', j.id, 'event_id', encode(j.event_id, 'hex'), 'pubkey', encode(j.pubkey, 'hex'),
  'kind', j.kind, 'created_at', j.created_at, 'state', j.state, 'priority', j.priority,
  'goal', j.goal, 'policy', j.policy, 'accepted_at', j.accepted_at, 'due_at', j.due_at,
  'expires_at', j.expires_at, 'published_at', j.published_at, 'finished_at', j.finished_at,
  'sign_attempts', j.sign_attempts, 'stage_at', j.stage_at, 'error_code', j.error_code,
  'error_text', j.error_text, 'size', j.size, 'signed', j.signed, 'targets', j.targets,
  'body', (SELECT replace(convert_from(body, 'UTF8'), chr(64976), chr(64976) || '1')
    FROM payloads WHERE job = j.id),
  'waits_for', (SELECT coalesce(json_agg(needs ORDER BY needs), '[]'::json)
    FROM dependencies WHERE job = j.id),
  'deliveries', (SELECT coalesce(json_agg(json_build_object(
      'relay', t.url, 'reason', coalesce(d.reason, ''), 'state', d.state,
      'attempts', d.attempts, 'next_at', CASE d.state WHEN 'waiting' THEN d.next_at END,
      'code', d.code, 'detail', coalesce(d.detail, ''), 'settled_at', d.settled_at)
      ORDER BY d.destination), '[]'::json)
    FROM (
      SELECT * FROM deliveries WHERE job = j.id
      UNION ALL SELECT * FROM delivery_history WHERE job = j.id
    ) AS d JOIN destinations AS t ON t.id = d.destination)
  ) ORDER BY j.id DESC), '[]'::json) AS json
FROM (
  SELECT * FROM jobs WHERE id = ANY(:jobs::bigint[])
  UNION ALL SELECT * FROM job_history WHERE id = ANY(:jobs::bigint[])) AS j;
