-- Drafts are found by their account: who can sign for it looks only there (A6). The stager's
-- own index holds what is signed.
DROP INDEX jobs_to_stage;
CREATE INDEX jobs_to_stage ON jobs (stage_at, state)
  WHERE stage_at IS NOT NULL AND state <> 'pending-sign';
CREATE INDEX jobs_to_sign ON jobs (pubkey, stage_at) WHERE state = 'pending-sign';
-- Deliveries that a relay would take from who AUTHs, and nobody could sign that.
CREATE INDEX deliveries_for_signer ON deliveries (job) WHERE code = 'signer';
