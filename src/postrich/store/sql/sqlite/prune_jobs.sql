-- Forget finished jobs; their event ids stay known (A9).
DELETE FROM delivery_history WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM payloads WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM story WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM dependencies WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs));
