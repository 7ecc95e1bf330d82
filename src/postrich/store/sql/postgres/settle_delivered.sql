-- Plain OKs. Rows: [job, destination, now]. A delivery that was cancelled meanwhile was delivered
-- all the same.
UPDATE deliveries SET state = 'delivered', attempts = attempts + 1, settled_at = e.at,
  code = 'ok', detail = NULL
FROM unnest(:rows.0::bigint[], :rows.1::integer[], :rows.2::bigint[]) AS e (job, destination, at)
WHERE deliveries.job = e.job AND deliveries.destination = e.destination
  AND deliveries.state <> 'delivered';
