-- Give URLs their numbers. Rows: [url, trusted]; whom the owner once trusted stays trusted. Who is
-- known is not touched: else everybody who accepts would wait for everybody.
INSERT INTO destinations (url, trusted)
SELECT e.url, max(e.trusted) FROM unnest(:rows.0::text[], :rows.1::smallint[]) AS e (url, trusted)
WHERE NOT EXISTS (SELECT 1 FROM destinations AS t WHERE t.url = e.url AND t.trusted >= e.trusted)
GROUP BY e.url ORDER BY e.url
ON CONFLICT (url) DO UPDATE SET trusted = 1
  WHERE excluded.trusted = 1 AND destinations.trusted = 0;
