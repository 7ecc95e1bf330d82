-- Which of these leases are still held; they stay so until the commit. Rows: [name, owner, epoch].
SELECT l.name, l.owner, l.epoch FROM leases AS l
WHERE (l.name, l.owner, l.epoch) IN (
  SELECT * FROM unnest(:rows.0::text[], :rows.1::text[], :rows.2::bigint[]))
ORDER BY l.name FOR SHARE;
