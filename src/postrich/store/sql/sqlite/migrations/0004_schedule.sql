-- Scheduled posts by their callers' own names: an edited post keeps its name, its job is a new one.
-- `crosspost`: the other networks it goes to once it is published, by their letters.
CREATE TABLE posts (
  id TEXT NOT NULL,
  pubkey BLOB NOT NULL,
  job INTEGER NOT NULL,
  crosspost TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (id, pubkey)
) STRICT, WITHOUT ROWID;
CREATE INDEX posts_by_author ON posts (pubkey, job);
CREATE INDEX posts_by_job ON posts (job);

-- An author's jobs; and which of them wait for their hour: quotas, and slots that are taken.
CREATE INDEX jobs_by_author ON jobs (pubkey, id);
CREATE INDEX job_history_by_author ON job_history (pubkey, id);
CREATE INDEX jobs_ahead ON jobs (pubkey, due_at, state)
  WHERE due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign');

-- Weekly grids of an author's own, whose slots posts are queued into.
CREATE TABLE grids (
  pubkey BLOB NOT NULL,
  name TEXT NOT NULL,
  grid TEXT NOT NULL,
  zone TEXT NOT NULL,
  PRIMARY KEY (pubkey, name)
) STRICT, WITHOUT ROWID;

-- What a request with an idempotency key was answered, for when it is sent again.
CREATE TABLE answers (
  caller TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answers_by_age ON answers (at);
