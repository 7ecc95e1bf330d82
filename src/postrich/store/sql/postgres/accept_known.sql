-- Which of the ids belong to another job: [index, job].
SELECT e.place - 1, i.job FROM unnest(:ids::text[]) WITH ORDINALITY AS e (id, place)
JOIN identities AS i ON i.event_id = decode(e.id, 'hex')
WHERE i.job <> :base::bigint + e.place - 1;
