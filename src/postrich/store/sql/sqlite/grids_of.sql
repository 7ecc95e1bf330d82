-- An author's weekly grids: [[pubkey, name, grid, zone], …].
SELECT json_group_array(json_array(lower(hex(pubkey)), name, grid, zone)) FROM (
  SELECT * FROM grids WHERE pubkey = unhex(:pubkey) ORDER BY name);
