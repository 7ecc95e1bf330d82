-- An author's weekly grids: [pubkey, name, grid, zone].
SELECT encode(pubkey, 'hex'), name, grid, zone FROM grids
WHERE pubkey = decode(:pubkey::text, 'hex') ORDER BY name;
