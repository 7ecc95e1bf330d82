-- A worker says that it is alive.
INSERT INTO workers (owner, host, pid, role, started_at, seen_at)
VALUES (:owner, :host, :pid, :role, :started_at, :seen_at)
ON CONFLICT (owner) DO UPDATE SET seen_at = excluded.seen_at;
