-- Keep an author's weekly grid.
INSERT INTO grids (pubkey, name, grid, zone)
VALUES (decode(:pubkey::text, 'hex'), :name::text, :grid::text, :zone::text)
ON CONFLICT (pubkey, name) DO UPDATE SET grid = excluded.grid, zone = excluded.zone;
