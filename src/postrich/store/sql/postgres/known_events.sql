-- Events that were handed in before: [event id, job, state, due_at]; of forgotten jobs only what
-- became of them is known.
SELECT encode(i.event_id, 'hex'), i.job, coalesce(j.state, h.state, i.ended, 'published'),
  coalesce(j.due_at, h.due_at)
FROM unnest(:ids::text[]) AS e JOIN identities AS i ON i.event_id = decode(e, 'hex')
LEFT JOIN jobs AS j ON j.id = i.job LEFT JOIN job_history AS h ON h.id = i.job;
