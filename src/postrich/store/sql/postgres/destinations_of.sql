-- The numbers of URLs: [url, id].
SELECT url, id FROM destinations WHERE url = ANY(:urls::text[]);
