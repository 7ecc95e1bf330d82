-- Nobody else fills these authors' schedules until the commit.
INSERT INTO authors (pubkey) SELECT decode(a, 'hex') FROM unnest(:pubkeys::text[]) AS a ORDER BY a
ON CONFLICT (pubkey) DO UPDATE SET pubkey = authors.pubkey WHERE false;
