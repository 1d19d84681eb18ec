-- How much of the processor time of each agent's last machines is in `usage`: one row for each
-- machine.

-- Ends are reported late, twice, and after usage of the next machine: each machine is counted on
-- its own. `grp` is the control group, `used` is in microseconds; the latest row has the greatest
-- `id`.
CREATE TABLE cpu_groups (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    grp TEXT NOT NULL,
    used INTEGER NOT NULL CHECK (used >= 0),
    UNIQUE (agent, grp)
) STRICT;
INSERT INTO cpu_groups (agent, grp, used) SELECT agent, grp, used FROM cpu_counters;
DROP TABLE cpu_counters;
