-- Take :count job numbers; returns the first. A transaction of its own, so that nobody waits for
-- an accept to end; it may reach the disk later than the jobs that it numbers never will.
WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE sequences SET next = next + :count FROM quick WHERE name = 'job'
RETURNING next - :count;
