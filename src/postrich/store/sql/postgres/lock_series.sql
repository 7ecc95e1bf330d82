-- Nobody else changes this series or its occurrences until the commit. Before all other locks.
SELECT id FROM series WHERE id = :id::text FOR UPDATE;
