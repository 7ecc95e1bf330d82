-- Forget finished jobs; their event ids stay known (A9), and how those ended that were not
-- published. Who waited for one of them was released or parked when it ended.
UPDATE identities SET ended = h.state FROM job_history AS h
WHERE h.id IN (SELECT value FROM json_each(:jobs)) AND h.state <> 'published'
  AND identities.event_id = h.event_id;
DELETE FROM delivery_history WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM posts WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM payloads WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM occurrences WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM inboxes WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM story WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM dependencies WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM dependencies WHERE needs IN (SELECT value FROM json_each(:jobs));
DELETE FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs));
