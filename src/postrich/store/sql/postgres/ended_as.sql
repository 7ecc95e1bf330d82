-- How a job ended that is pruned; nothing where it was published.
SELECT ended FROM identities WHERE event_id = decode(:event_id, 'hex');
