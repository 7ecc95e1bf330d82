-- Keep a new hook.
INSERT INTO hooks (id, pubkey, url, events, state, created_at, key)
VALUES (:id::text, decode(:pubkey::text, 'hex'), :url::text, :events::text, 'active', :now::bigint,
  :key::text);
