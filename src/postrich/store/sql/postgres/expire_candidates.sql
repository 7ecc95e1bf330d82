-- Jobs whose lifetime is over; what somebody is busy with comes next time.
SELECT id FROM jobs WHERE finished_at IS NULL AND expires_at <= :now::bigint
ORDER BY expires_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED;
