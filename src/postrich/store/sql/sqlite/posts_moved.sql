-- An edited post means its new job, and so does the occurrence that it was made for.
UPDATE posts SET job = :new WHERE job = :old;
UPDATE occurrences SET job = :new WHERE job = :old;
