-- step: expand
-- Keys and addresses in full beside their digests, so that an outbox can be moved to where they are
-- kept as they are; and the newest schema that a worker's software knows (0: it does not say).
ALTER TABLE idempotency ADD COLUMN full_key text;
ALTER TABLE addresses ADD COLUMN full_address text;
ALTER TABLE workers ADD COLUMN knows integer NOT NULL DEFAULT 0;
