-- Relay lists as their owners signed them, the newest of each. Without an event: we looked, and
-- none was published.
CREATE TABLE lists (
  pubkey BLOB NOT NULL,
  kind INTEGER NOT NULL,
  looked_at INTEGER NOT NULL,
  body TEXT,
  PRIMARY KEY (pubkey, kind)
) STRICT, WITHOUT ROWID;

-- Who reads at which destination of a job: goals per recipient (D12), and which jobs are to be
-- routed again when somebody's list changes (D11).
CREATE TABLE inboxes (
  job INTEGER NOT NULL,
  pubkey BLOB NOT NULL,
  destination INTEGER NOT NULL,
  PRIMARY KEY (job, pubkey, destination)
) STRICT, WITHOUT ROWID;
CREATE INDEX inboxes_by_reader ON inboxes (pubkey, job);

-- Relays that only others' lists name are not trusted: they may not lead us anywhere inside.
ALTER TABLE destinations ADD COLUMN trusted INTEGER NOT NULL DEFAULT 1;

-- `route`: 'auto' jobs are routed by relay lists when they are due. Goals beside the plain one:
-- so many of the author's own relays, so many of each recipient's.
ALTER TABLE jobs ADD COLUMN route TEXT NOT NULL DEFAULT 'fixed';
ALTER TABLE jobs ADD COLUMN route_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN goal_mine INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN goal_inbox INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_history ADD COLUMN route TEXT NOT NULL DEFAULT 'fixed';
ALTER TABLE job_history ADD COLUMN route_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_history ADD COLUMN goal_mine INTEGER NOT NULL DEFAULT 0;
ALTER TABLE job_history ADD COLUMN goal_inbox INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN mine INTEGER NOT NULL DEFAULT 0;
ALTER TABLE delivery_history ADD COLUMN mine INTEGER NOT NULL DEFAULT 0;
-- Where deleted versions went is asked of history too.
CREATE INDEX job_history_by_address ON job_history (address) WHERE address IS NOT NULL;
