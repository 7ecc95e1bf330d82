-- Bring jobs back from history.
INSERT INTO jobs SELECT * FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs));
INSERT INTO deliveries
  SELECT * FROM delivery_history WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM delivery_history WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM job_history WHERE id IN (SELECT value FROM json_each(:jobs));
