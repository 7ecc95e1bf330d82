-- Every other result. Rows: [job, state, attempts, next_at, code, detail, burnt, destination, now].
-- Whatever was tried counts; but only a waiting delivery moves, and a settled one only to delivered,
-- by an OK that came late. The story gets a line of what is more than a plain OK, where the job
-- was not deleted meanwhile. A result whose commit was not heard of may be told twice, and counts
-- once.
WITH e AS MATERIALIZED (SELECT * FROM unnest(:rows.0::bigint[], :rows.1::text[], :rows.2::integer[],
    :rows.3::bigint[], :rows.4::text[], :rows.5::text[], :rows.6::boolean[], :rows.7::integer[],
    :rows.8::bigint[])
    AS e (job, state, attempts, next_at, code, detail, burnt, destination, at)),
  kept AS (UPDATE deliveries AS d
    SET attempts = d.attempts + e.burnt::integer, next_at = e.next_at, band = d.band | 1::smallint,
      state = CASE WHEN d.state = 'waiting' OR e.state = 'delivered' THEN e.state ELSE d.state END,
      code = CASE WHEN d.state = 'waiting' OR (d.state <> 'delivered' AND e.state = 'delivered')
        THEN e.code ELSE d.code END,
      detail = CASE WHEN d.state = 'waiting' OR (d.state <> 'delivered' AND e.state = 'delivered')
        THEN e.detail ELSE d.detail END,
      settled_at = CASE WHEN d.state = 'waiting' OR (d.state <> 'delivered' AND e.state = 'delivered')
        THEN CASE e.state WHEN 'waiting' THEN NULL ELSE e.at END ELSE d.settled_at END
    FROM e WHERE d.job = e.job AND d.destination = e.destination
      AND CASE WHEN e.burnt THEN d.attempts < e.attempts
        ELSE e.state = 'waiting' OR d.state <> e.state OR d.code IS DISTINCT FROM e.code END
    RETURNING e.*)
INSERT INTO story (job, at, what, destination, attempt, detail)
SELECT job, at, code, destination, CASE WHEN burnt THEN attempts END, coalesce(detail, '')
FROM kept WHERE burnt OR state <> 'waiting';
