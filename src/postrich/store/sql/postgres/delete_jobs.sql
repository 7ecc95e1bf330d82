-- Remove jobs altogether, so that the same event may be handed in anew.
WITH i AS (DELETE FROM identities WHERE event_id = ANY(ARRAY(
    SELECT event_id FROM jobs WHERE id = ANY(:jobs::bigint[])
    UNION ALL SELECT event_id FROM job_history WHERE id = ANY(:jobs::bigint[])))),
  k AS (DELETE FROM idempotency WHERE job = ANY(:jobs::bigint[])),
  o AS (DELETE FROM posts WHERE job = ANY(:jobs::bigint[])),
  p AS (DELETE FROM payloads WHERE job = ANY(:jobs::bigint[])),
  r AS (DELETE FROM inboxes WHERE job = ANY(:jobs::bigint[])),
  s AS (DELETE FROM story WHERE job = ANY(:jobs::bigint[])),
  n AS (DELETE FROM dependencies WHERE job = ANY(:jobs::bigint[]) OR needs = ANY(:jobs::bigint[])),
  d AS (DELETE FROM deliveries WHERE job = ANY(:jobs::bigint[])),
  e AS (DELETE FROM delivery_history WHERE job = ANY(:jobs::bigint[])),
  h AS (DELETE FROM job_history WHERE id = ANY(:jobs::bigint[]))
DELETE FROM jobs WHERE id = ANY(:jobs::bigint[]);
