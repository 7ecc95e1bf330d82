-- The story's lines for results that are more than a plain OK.
INSERT INTO story (job, at, what, destination, attempt, detail)
SELECT value ->> 0, :now, value ->> 4, :destination,
  CASE WHEN value ->> 6 THEN value ->> 2 END, coalesce(value ->> 5, '')
FROM json_each(:rows) WHERE value ->> 6 OR value ->> 1 <> 'waiting';
