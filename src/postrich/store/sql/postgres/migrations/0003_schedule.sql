-- step: expand
-- Scheduled posts by their callers' own names: an edited post keeps its name, its job is a new one.
-- `crosspost`: the other networks it goes to once it is published, by their letters.
CREATE TABLE posts (
  id text COLLATE "C" NOT NULL,
  pubkey bytea NOT NULL,
  job bigint NOT NULL,
  crosspost text NOT NULL DEFAULT '',
  PRIMARY KEY (id, pubkey)
);
CREATE INDEX posts_by_author ON posts (pubkey, job);
CREATE INDEX posts_by_job ON posts (job);

-- Whoever counts or fills an author's schedule holds the author's row until the commit.
CREATE TABLE authors (pubkey bytea PRIMARY KEY) WITH (fillfactor = 70);

-- An author's jobs; and which of them wait for their hour: quotas, and slots that are taken.
CREATE INDEX jobs_by_author ON jobs (pubkey, id);
CREATE INDEX job_history_by_author ON job_history (pubkey, id);
CREATE INDEX jobs_ahead ON jobs (pubkey, due_at)
  WHERE due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign');

-- Weekly grids of an author's own, whose slots posts are queued into.
CREATE TABLE grids (
  pubkey bytea NOT NULL,
  name text COLLATE "C" NOT NULL,
  grid text NOT NULL,
  zone text NOT NULL,
  PRIMARY KEY (pubkey, name)
);

-- What a request with an idempotency key was answered, for when it is sent again.
CREATE TABLE answers (
  caller text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  status integer NOT NULL,
  body text NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (caller, key)
);
CREATE INDEX answers_by_age ON answers (at);
