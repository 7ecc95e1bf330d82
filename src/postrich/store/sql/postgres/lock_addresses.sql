-- Nobody else has a say about these addresses until the commit, new ones included.
INSERT INTO addresses (address, full_address, created_at)
SELECT sha256(convert_to(a, 'UTF8')) AS digest, a, 0
FROM unnest(:addresses::text[]) AS a ORDER BY digest
ON CONFLICT (address) DO UPDATE SET created_at = addresses.created_at WHERE false;
