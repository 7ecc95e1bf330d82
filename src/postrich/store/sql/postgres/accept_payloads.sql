-- Keep the events' JSON bytes as they are; an empty one belongs to an event that has a job already.
INSERT INTO payloads (job, body)
SELECT :base::bigint + place - 1, body
FROM unnest(:bodies::bytea[]) WITH ORDINALITY AS e (body, place) WHERE length(body) > 0;
