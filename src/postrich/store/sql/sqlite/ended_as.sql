-- How a job ended that is pruned; nothing where it was published.
SELECT ended FROM identities WHERE event_id = unhex(:event_id);
