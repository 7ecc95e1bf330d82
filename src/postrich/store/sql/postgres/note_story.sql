-- The same line for several jobs.
INSERT INTO story (job, at, what, detail)
SELECT job, :now::bigint, :what::text, :detail::text FROM unnest(:jobs::bigint[]) AS job;
