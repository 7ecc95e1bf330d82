-- An edited post means its new job, and so does the occurrence that it was made for.
UPDATE posts SET job = :new::bigint WHERE job = :old::bigint;
UPDATE occurrences SET job = :new::bigint WHERE job = :old::bigint;
