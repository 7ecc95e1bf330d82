-- The accounts with drafts to sign, and when the earliest of each is due: two seeks an account.
WITH RECURSIVE accounts (pubkey) AS (
  (SELECT pubkey FROM jobs WHERE state = 'pending-sign' ORDER BY pubkey LIMIT 1)
  UNION ALL
  SELECT (SELECT pubkey FROM jobs WHERE state = 'pending-sign' AND pubkey > accounts.pubkey
    ORDER BY pubkey LIMIT 1)
  FROM accounts WHERE accounts.pubkey IS NOT NULL)
SELECT encode(pubkey, 'hex'), (
  SELECT stage_at FROM jobs WHERE state = 'pending-sign' AND pubkey = accounts.pubkey
  ORDER BY stage_at LIMIT 1)
FROM accounts WHERE pubkey IS NOT NULL;
