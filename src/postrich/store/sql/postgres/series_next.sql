-- When the next occurrence of any series happens.
SELECT min(next_at) FROM series WHERE state = 'active' AND next_at IS NOT NULL;
