-- How far the processor time of each agent's last machines is in `usage`: one row a machine.

-- Ends are told late, twice, and after what the next machine uses: each counts for itself. `grp` is
-- the control group, `used` is in microseconds; what was written last has the greatest `id`.
CREATE TABLE cpu_groups (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    grp TEXT NOT NULL,
    used INTEGER NOT NULL CHECK (used >= 0),
    UNIQUE (agent, grp)
) STRICT;
INSERT INTO cpu_groups (agent, grp, used) SELECT agent, grp, used FROM cpu_counters;
DROP TABLE cpu_counters;
