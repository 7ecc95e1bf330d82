-- Queue a message that tells of no job.
INSERT INTO hook_messages (id, hook, pubkey, kind, next_at, created_at)
SELECT :id::text, h.id, h.pubkey, :kind::text, :now::bigint, :now FROM hooks AS h
WHERE h.id = :hook::text;
