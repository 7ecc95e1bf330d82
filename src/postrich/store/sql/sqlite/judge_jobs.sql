-- Carry out judgements. Rows: [job, state, finished].
UPDATE jobs SET state = value ->> 1,
  published_at = CASE WHEN value ->> 1 = 'published' THEN coalesce(published_at, :now) END,
  finished_at = CASE WHEN value ->> 2 THEN coalesce(finished_at, :now) END
FROM json_each(:rows) WHERE jobs.id = value ->> 0;
