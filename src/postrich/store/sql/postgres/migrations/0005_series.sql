-- step: expand
-- Recurring posts. Who wants one has its text here; each time it happens is one row, with its job.
CREATE TABLE series (
  id text COLLATE "C" PRIMARY KEY,
  pubkey bytea NOT NULL,
  recurrence text NOT NULL,
  zone text NOT NULL,
  template text,
  terms text NOT NULL,
  starts_at bigint NOT NULL,
  kept_at bigint NOT NULL,
  until bigint,
  count bigint,
  missed text NOT NULL,
  state text COLLATE "C" NOT NULL,
  made bigint NOT NULL,
  passed bigint NOT NULL,
  next_at bigint,
  last_at bigint,
  revision bigint NOT NULL
);
CREATE INDEX series_due ON series (next_at) WHERE state = 'active' AND next_at IS NOT NULL;
CREATE INDEX series_by_author ON series (pubkey, id);

CREATE TABLE occurrences (
  series text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  state text COLLATE "C" NOT NULL,
  job bigint,
  template text,
  detail text NOT NULL,
  PRIMARY KEY (series, at)
);
CREATE INDEX occurrences_by_job ON occurrences (job) WHERE job IS NOT NULL;
