-- Forget finished jobs; their event ids stay known (A9), and how those ended that were not
-- published. Who waited for one of them was released or parked when it ended.
WITH h AS (DELETE FROM job_history WHERE id = ANY(:jobs::bigint[]) RETURNING event_id, state),
  d AS (DELETE FROM delivery_history WHERE job = ANY(:jobs::bigint[])),
  o AS (DELETE FROM posts WHERE job = ANY(:jobs::bigint[])),
  p AS (DELETE FROM payloads WHERE job = ANY(:jobs::bigint[])),
  c AS (DELETE FROM occurrences WHERE job = ANY(:jobs::bigint[])),
  r AS (DELETE FROM inboxes WHERE job = ANY(:jobs::bigint[])),
  s AS (DELETE FROM story WHERE job = ANY(:jobs::bigint[])),
  n AS (DELETE FROM dependencies WHERE job = ANY(:jobs::bigint[]) OR needs = ANY(:jobs::bigint[]))
UPDATE identities SET ended = h.state FROM h
WHERE h.state <> 'published' AND identities.event_id = h.event_id;
