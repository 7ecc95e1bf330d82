-- End jobs before their goal; what is published stays published.
UPDATE jobs SET state = CASE state WHEN 'published' THEN state ELSE :state::text END,
  finished_at = coalesce(finished_at, :now::bigint), stage_at = NULL
WHERE id = ANY(:jobs::bigint[]);
