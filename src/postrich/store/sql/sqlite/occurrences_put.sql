-- Write down what became of occurrences. Rows: [at, state, job, template, detail].
INSERT INTO occurrences (series, at, state, job, template, detail)
SELECT :series, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM json_each(:rows) WHERE true
ON CONFLICT (series, at) DO UPDATE SET state = excluded.state, job = excluded.job,
  template = excluded.template, detail = excluded.detail;
