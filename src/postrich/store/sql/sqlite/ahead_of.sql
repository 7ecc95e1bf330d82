-- How many posts of each author wait for their hour, and when the first is due.
SELECT json_group_array(json_array(lower(value), (
    SELECT count(*) FROM jobs WHERE pubkey = unhex(value)
      AND due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign')), (
    SELECT min(due_at) FROM jobs WHERE pubkey = unhex(value)
      AND due_at IS NOT NULL AND state IN ('scheduled', 'pending-sign'))))
FROM json_each(:pubkeys);
