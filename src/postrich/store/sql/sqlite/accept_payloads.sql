-- Keep the events' JSON bytes as they are; an empty one belongs to an event that has a job already.
INSERT INTO payloads (job, body)
SELECT :base + rowid - 1, value FROM carray(:bodies) WHERE length(value) > 0;
