-- Carry out judgements. Rows: [job, state, finished].
UPDATE jobs SET state = e.state,
  published_at = CASE WHEN e.state = 'published' THEN coalesce(published_at, :now::bigint) END,
  finished_at = CASE WHEN e.finished THEN coalesce(finished_at, :now) END
FROM unnest(:rows.0::bigint[], :rows.1::text[], :rows.2::boolean[]) AS e (job, state, finished)
WHERE jobs.id = e.job;
