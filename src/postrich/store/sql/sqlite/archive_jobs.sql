-- Move jobs and deliveries to history.
INSERT INTO job_history SELECT * FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs));
INSERT INTO delivery_history
  SELECT * FROM deliveries WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM deliveries WHERE job IN (SELECT value FROM json_each(:jobs));
DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(:jobs));
