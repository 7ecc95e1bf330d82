-- A worker says that it is alive, and which schema it knows.
INSERT INTO workers (owner, host, pid, role, started_at, seen_at, knows)
VALUES (:owner::text, :host::text, :pid::bigint, :role::text, :started_at::bigint,
  :seen_at::bigint, :knows::integer)
ON CONFLICT (owner) DO UPDATE SET seen_at = excluded.seen_at;
