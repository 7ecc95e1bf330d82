-- Plain OKs of one lane. A delivery that was cancelled meanwhile was delivered all the same.
UPDATE deliveries SET state = 'delivered', attempts = attempts + 1, settled_at = :now,
  code = 'ok', detail = NULL
FROM json_each(:jobs) AS e
WHERE deliveries.job = e.value AND deliveries.destination = :destination
  AND deliveries.state <> 'delivered';
