-- Take :count job numbers; returns the first.
UPDATE sequences SET next = next + :count WHERE name = 'job' RETURNING next - :count;
