-- Write down what became of occurrences. Rows: [at, state, job, template, detail].
INSERT INTO occurrences (series, at, state, job, template, detail)
SELECT :series::text, e.at, e.state, e.job, e.template, e.detail
FROM unnest(:rows.0::bigint[], :rows.1::text[], :rows.2::bigint[], :rows.3::text[],
  :rows.4::text[]) AS e (at, state, job, template, detail)
ON CONFLICT (series, at) DO UPDATE SET state = excluded.state, job = excluded.job,
  template = excluded.template, detail = excluded.detail;
