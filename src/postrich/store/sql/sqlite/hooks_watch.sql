-- Queue messages from now on. Triggers, so that a message is of the very transaction that makes what
-- it tells of; only where there are hooks, since SQLite runs them for every job (decision 16).
-- Jobs that come back from history are finished, and new ones are not.
CREATE TRIGGER IF NOT EXISTS hooks_on_accept AFTER INSERT ON jobs
WHEN NEW.due_at > NEW.accepted_at AND NEW.finished_at IS NULL
BEGIN
  INSERT INTO hook_messages (id, hook, job, event_id, pubkey, kind, next_at, created_at)
  SELECT 'msg_' || lower(hex(randomblob(16))), h.id, NEW.id, NEW.event_id, NEW.pubkey, 'scheduled',
    NEW.accepted_at, NEW.accepted_at
  FROM hooks AS h WHERE h.pubkey IN (NEW.pubkey, x'') AND h.state = 'active'
    AND instr(h.events, '"scheduled"') > 0;
END;

-- `exhausted`: no relay's no was the last word, but time or attempts were over.
CREATE TRIGGER IF NOT EXISTS hooks_on_change AFTER UPDATE OF state, finished_at ON jobs
WHEN NEW.state IN ('published', 'failed', 'cancelled')
  AND (NEW.state <> OLD.state
    OR (NEW.state = 'published' AND OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL))
  AND EXISTS (SELECT 1 FROM hooks AS h WHERE h.pubkey IN (NEW.pubkey, x'') AND h.state = 'active')
BEGIN
  INSERT INTO hook_messages (id, hook, job, event_id, pubkey, kind, next_at, created_at)
  SELECT 'msg_' || lower(hex(randomblob(16))), h.id, NEW.id, NEW.event_id, NEW.pubkey, k.kind,
    k.at, k.at
  FROM (
    SELECT 1 AS place, 'published' AS kind, NEW.published_at AS at
      WHERE NEW.state = 'published' AND OLD.state <> 'published'
    UNION ALL SELECT 2, 'delivered', NEW.finished_at
      WHERE NEW.state = 'published' AND NEW.finished_at IS NOT NULL
    UNION ALL SELECT 3, 'cancelled', NEW.finished_at WHERE NEW.state = 'cancelled'
    UNION ALL SELECT 4, CASE WHEN EXISTS (
        SELECT 1 FROM deliveries AS d WHERE d.job = NEW.id AND d.state IN ('failed', 'unknown'))
      OR NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.job = NEW.id)
      THEN 'exhausted' ELSE 'failed' END, NEW.finished_at WHERE NEW.state = 'failed'
  ) AS k JOIN hooks AS h ON h.pubkey IN (NEW.pubkey, x'') AND h.state = 'active'
    AND instr(h.events, '"' || k.kind || '"') > 0
  ORDER BY k.place;
END;
