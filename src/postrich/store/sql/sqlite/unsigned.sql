-- The accounts with drafts to sign, and when the earliest of each is due: two seeks an account.
WITH RECURSIVE accounts (pubkey) AS (
  SELECT min(pubkey) FROM jobs WHERE state = 'pending-sign'
  UNION ALL
  SELECT (SELECT min(pubkey) FROM jobs WHERE state = 'pending-sign' AND pubkey > accounts.pubkey)
  FROM accounts WHERE accounts.pubkey IS NOT NULL)
SELECT json_group_array(json_array(lower(hex(pubkey)), (
  SELECT min(stage_at) FROM jobs WHERE state = 'pending-sign' AND pubkey = accounts.pubkey)))
FROM accounts WHERE pubkey IS NOT NULL;
