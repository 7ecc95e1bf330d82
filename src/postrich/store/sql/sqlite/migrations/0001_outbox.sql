-- The outbox: jobs, their deliveries, and who works on them. Times are milliseconds.

CREATE TABLE sequences (name TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO sequences VALUES ('job', 1);

CREATE TABLE destinations (id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE) STRICT;

-- One job per event id and per idempotency key, for ever: these outlive history (A9). `ended`
-- is what became of a job that is forgotten, where that is not `published`.
CREATE TABLE identities (
  event_id BLOB PRIMARY KEY,
  job INTEGER NOT NULL,
  ended TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency (key TEXT PRIMARY KEY, job INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_job ON idempotency (job);

-- The newest version of every replaceable or addressable event that was ever accepted (A11).
CREATE TABLE addresses (
  address TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL,
  event_id BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  event_id BLOB NOT NULL,
  pubkey BLOB NOT NULL,
  kind INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  address TEXT,
  signed INTEGER NOT NULL,
  state TEXT NOT NULL,
  priority INTEGER NOT NULL,
  goal INTEGER NOT NULL,
  policy TEXT NOT NULL,
  targets TEXT,
  accepted_at INTEGER NOT NULL,
  due_at INTEGER,
  expires_at INTEGER NOT NULL,
  stage_at INTEGER,
  published_at INTEGER,
  finished_at INTEGER,
  sign_attempts INTEGER NOT NULL DEFAULT 0,
  error_code TEXT,
  error_text TEXT,
  size INTEGER NOT NULL
) STRICT;
-- What the stager must do next; who expires next (and, covering, what waits); what may be
-- archived; what a person should look at. Each index holds only the rows of its question.
CREATE INDEX jobs_to_stage ON jobs (stage_at) WHERE stage_at IS NOT NULL;
CREATE INDEX jobs_open ON jobs (expires_at, state, accepted_at, sign_attempts, finished_at)
  WHERE finished_at IS NULL;
CREATE INDEX jobs_done ON jobs (finished_at)
  WHERE finished_at IS NOT NULL AND state IN ('published', 'cancelled', 'superseded');
CREATE INDEX jobs_in_trouble ON jobs (state, expires_at) WHERE state IN ('failed', 'parked');
CREATE INDEX jobs_by_address ON jobs (address) WHERE address IS NOT NULL;

-- The event's JSON, never changed after it is signed; apart, so that job rows stay small.
CREATE TABLE payloads (job INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

CREATE TABLE deliveries (
  job INTEGER NOT NULL,
  destination INTEGER NOT NULL,
  state TEXT NOT NULL,
  band INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  settled_at INTEGER,
  code TEXT,
  detail TEXT,
  reason TEXT,
  PRIMARY KEY (job, destination)
) STRICT, WITHOUT ROWID;
-- The queue itself. band = 2 × priority, + 1 once it was tried: fresh and retried work apart.
CREATE INDEX deliveries_due ON deliveries (destination, band, next_at, job, attempts)
  WHERE state = 'waiting';

-- Job × job: `job` is not sent before `needs` is published (A10).
CREATE TABLE dependencies (
  job INTEGER NOT NULL,
  needs INTEGER NOT NULL,
  PRIMARY KEY (job, needs)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_by_need ON dependencies (needs);

-- What happened to a job beyond the plain road: every failed attempt, every person's act.
CREATE TABLE story (
  id INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  what TEXT NOT NULL,
  destination INTEGER,
  attempt INTEGER,
  detail TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX story_by_job ON story (job);

-- Who works on what. `epoch` rises with every new holder: an old holder's results are refused.
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE workers (
  owner TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  role TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Relays that a person wants tried now, whatever their breaker says (B6).
CREATE TABLE nudges (destination INTEGER PRIMARY KEY) STRICT;

CREATE TABLE relay_health (destination INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;

-- Finished work, out of the way of the hot tables until it is pruned by age.
CREATE TABLE job_history (
  id INTEGER PRIMARY KEY,
  event_id BLOB NOT NULL,
  pubkey BLOB NOT NULL,
  kind INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  address TEXT,
  signed INTEGER NOT NULL,
  state TEXT NOT NULL,
  priority INTEGER NOT NULL,
  goal INTEGER NOT NULL,
  policy TEXT NOT NULL,
  targets TEXT,
  accepted_at INTEGER NOT NULL,
  due_at INTEGER,
  expires_at INTEGER NOT NULL,
  stage_at INTEGER,
  published_at INTEGER,
  finished_at INTEGER,
  sign_attempts INTEGER NOT NULL DEFAULT 0,
  error_code TEXT,
  error_text TEXT,
  size INTEGER NOT NULL
) STRICT;
CREATE INDEX job_history_by_age ON job_history (finished_at);
CREATE TABLE delivery_history (
  job INTEGER NOT NULL,
  destination INTEGER NOT NULL,
  state TEXT NOT NULL,
  band INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  settled_at INTEGER,
  code TEXT,
  detail TEXT,
  reason TEXT,
  PRIMARY KEY (job, destination)
) STRICT, WITHOUT ROWID;

CREATE VIEW all_jobs AS SELECT * FROM jobs UNION ALL SELECT * FROM job_history;
CREATE VIEW all_deliveries AS SELECT * FROM deliveries UNION ALL SELECT * FROM delivery_history;
