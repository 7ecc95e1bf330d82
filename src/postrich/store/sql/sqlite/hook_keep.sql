-- Keep a new hook.
INSERT INTO hooks (id, pubkey, url, events, state, created_at, key)
VALUES (:id, unhex(:pubkey), :url, :events, 'active', :now, :key);
