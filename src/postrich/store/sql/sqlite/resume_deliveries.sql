-- Somebody can sign the AUTH that these waited for.
UPDATE deliveries SET state = 'waiting', next_at = :now, settled_at = NULL, code = NULL,
  detail = NULL
WHERE job IN (SELECT value FROM json_each(:jobs)) AND code = 'signer'
  AND state IN ('waiting', 'parked');
