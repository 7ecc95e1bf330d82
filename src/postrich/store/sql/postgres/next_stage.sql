-- When the stager is needed next.
SELECT min(stage_at) FROM jobs WHERE stage_at IS NOT NULL AND state <> 'pending-sign';
