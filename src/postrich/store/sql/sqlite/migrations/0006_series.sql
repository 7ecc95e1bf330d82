-- Recurring posts. Who wants one has its text here; each time it happens is one row, with its job.
CREATE TABLE series (
  id TEXT PRIMARY KEY,
  pubkey BLOB NOT NULL,
  recurrence TEXT NOT NULL,
  zone TEXT NOT NULL,
  template TEXT,
  terms TEXT NOT NULL,
  starts_at INTEGER NOT NULL,
  kept_at INTEGER NOT NULL,
  until INTEGER,
  count INTEGER,
  missed TEXT NOT NULL,
  state TEXT NOT NULL,
  made INTEGER NOT NULL,
  passed INTEGER NOT NULL,
  next_at INTEGER,
  last_at INTEGER,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX series_due ON series (next_at) WHERE state = 'active' AND next_at IS NOT NULL;
CREATE INDEX series_by_author ON series (pubkey, id);

CREATE TABLE occurrences (
  series TEXT NOT NULL,
  at INTEGER NOT NULL,
  state TEXT NOT NULL,
  job INTEGER,
  template TEXT,
  detail TEXT NOT NULL,
  PRIMARY KEY (series, at)
) STRICT, WITHOUT ROWID;
CREATE INDEX occurrences_by_job ON occurrences (job) WHERE job IS NOT NULL;
