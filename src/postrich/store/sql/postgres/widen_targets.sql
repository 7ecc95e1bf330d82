-- A job that was not sent on its way yet shall go to more relays.
UPDATE jobs SET targets = :targets::text WHERE id = :job::bigint;
