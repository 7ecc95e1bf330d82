-- Who works here: [[owner, host, pid, role, started_at, seen_at], …].
SELECT json_group_array(json_array(owner, host, pid, role, started_at, seen_at)) FROM workers;
