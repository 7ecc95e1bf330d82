-- Remove jobs altogether, so that the same event may be handed in anew.
DELETE FROM identities WHERE event_id IN (
  SELECT event_id FROM all_jobs WHERE id IN (SELECT value FROM json_each(:jobs)));
DELETE FROM idempotency WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM posts WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM payloads WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM inboxes WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM story WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM dependencies WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM dependencies WHERE needs IN (SELECT value FROM json_each(:jobs));
DELETE FROM deliveries WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM delivery_history WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs));
DELETE FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs));
