-- Keep an author's weekly grid.
INSERT INTO grids (pubkey, name, grid, zone) VALUES (unhex(:pubkey), :name, :grid, :zone)
ON CONFLICT (pubkey, name) DO UPDATE SET grid = excluded.grid, zone = excluded.zone;
