-- Jobs that a newer version of their address makes useless.
SELECT json_group_array(id) FROM jobs
WHERE address = :address AND id <> :winner AND (finished_at IS NULL OR state = 'parked');
