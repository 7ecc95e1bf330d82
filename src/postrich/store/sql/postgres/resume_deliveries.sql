-- Somebody can sign the AUTH that these waited for.
UPDATE deliveries SET state = 'waiting', next_at = :now::bigint, settled_at = NULL, code = NULL,
  detail = NULL
WHERE job = ANY(:jobs::bigint[]) AND code = 'signer' AND state IN ('waiting', 'parked');
