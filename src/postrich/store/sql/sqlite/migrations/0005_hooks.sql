-- Whom to tell what became of jobs (F6). `pubkey`: whose jobs, empty: everybody's. `events`: a JSON
-- list. No secret is here: `key` says by which master secret the hook's own is derived, `generation`
-- how often it was changed.
CREATE TABLE hooks (
  id TEXT PRIMARY KEY,
  pubkey BLOB NOT NULL,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL,
  key TEXT NOT NULL,
  generation INTEGER NOT NULL DEFAULT 1,
  rotated_at INTEGER,
  failing_since INTEGER,
  failures INTEGER NOT NULL DEFAULT 0,
  answered_at INTEGER,
  answer_status INTEGER,
  answer_text TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX hooks_of_jobs ON hooks (pubkey) WHERE state = 'active';

-- What waits to be told, and what was. Numbers give the order.
CREATE TABLE hook_messages (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  hook TEXT NOT NULL,
  job INTEGER,
  event_id BLOB,
  pubkey BLOB NOT NULL,
  kind TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting',
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  settled_at INTEGER,
  status INTEGER,
  error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX hook_messages_due ON hook_messages (hook, next_at) WHERE state = 'waiting';
CREATE INDEX hook_messages_in_order ON hook_messages (hook, job, number) WHERE state = 'waiting';
CREATE INDEX hook_messages_by_hook ON hook_messages (hook, number);
CREATE INDEX hook_messages_by_age ON hook_messages (created_at);
