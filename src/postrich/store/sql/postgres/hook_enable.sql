-- Tell a hook again what happens from now on; its failures are forgotten.
UPDATE hooks SET state = 'active', reason = '', failing_since = NULL, failures = 0
WHERE id = :id::text;
