-- Who works here: [owner, host, pid, role, started_at, seen_at].
SELECT owner, host, pid, role, started_at, seen_at FROM workers;
