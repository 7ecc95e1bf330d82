-- The account can sign now: what waits for that is due, whatever its backoff says (A6).
-- `id + 0`: in this order, but by the index of drafts.
WITH mine AS MATERIALIZED (SELECT id FROM jobs
  WHERE state = 'pending-sign' AND pubkey = decode(:pubkey, 'hex') AND stage_at > :now::bigint
  ORDER BY id + 0 FOR UPDATE)
UPDATE jobs SET stage_at = :now FROM mine WHERE jobs.id = mine.id;
