-- The hook's next secret. The one before it counts for a while, if it has the same master.
UPDATE hooks SET generation = generation + 1, rotated_at = CASE key WHEN :key THEN :now END, key = :key
WHERE id = :id;
