-- The account can sign now: what waits for that is due, whatever its backoff says (A6).
UPDATE jobs SET stage_at = :now
WHERE state = 'pending-sign' AND pubkey = unhex(:pubkey) AND stage_at > :now;
