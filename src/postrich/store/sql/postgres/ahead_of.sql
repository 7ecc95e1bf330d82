-- How many posts of each author wait for their hour, and when the first is due.
SELECT e, (SELECT count(*) FROM jobs WHERE pubkey = decode(e, 'hex')
    AND due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign')),
  (SELECT min(due_at) FROM jobs WHERE pubkey = decode(e, 'hex')
    AND due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign'))
FROM unnest(:pubkeys::text[]) AS e;
