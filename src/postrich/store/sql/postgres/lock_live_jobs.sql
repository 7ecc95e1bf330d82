-- Nobody else moves these jobs or their deliveries until the commit. In the order of numbers.
SELECT id FROM jobs WHERE id = ANY(:jobs::bigint[]) ORDER BY id FOR UPDATE;
