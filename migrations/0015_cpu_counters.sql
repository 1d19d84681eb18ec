-- How much of the processor time of each agent's last machine is in `usage`.

-- `grp` is the inode of its control group: another one counts from 0. `used` is in microseconds.
CREATE TABLE cpu_counters (
    agent TEXT PRIMARY KEY,
    grp TEXT NOT NULL,
    used INTEGER NOT NULL CHECK (used >= 0)
) STRICT, WITHOUT ROWID;
