-- Of :jobs, those that still have a delivery there.
SELECT json_group_array(job) FROM deliveries
WHERE job IN (SELECT value FROM json_each(:jobs)) AND destination = :destination;
