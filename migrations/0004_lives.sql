-- How machines ended, and what an agent saved for its next start.

-- One row for each agent. invocation: the last reported start; up: its end is not reported yet.
-- ended: the last end of which systemd left a record. activity: idle, running or blocked. next: the
-- action at `due`, after its last task ended: `sleeps` or `exits`.
CREATE TABLE lives (
    agent TEXT PRIMARY KEY,
    nonce INTEGER NOT NULL DEFAULT 0,
    invocation TEXT NOT NULL DEFAULT '',
    up INTEGER NOT NULL DEFAULT 0,
    ended TEXT NOT NULL DEFAULT '',
    activity TEXT NOT NULL DEFAULT 'idle',
    next TEXT NOT NULL DEFAULT '',
    due REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX lives_due ON lives (due) WHERE due IS NOT NULL;

-- Every end, once. stays: the agent does not start again by itself. reap: when the agent is
-- destroyed because it ended. collected: when its parent collected the end, or no longer has to.
CREATE TABLE ends (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    parent TEXT NOT NULL,
    invocation TEXT NOT NULL,
    nonce INTEGER NOT NULL,
    code INTEGER,
    reason TEXT NOT NULL,
    clean INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    wanted TEXT NOT NULL,
    stays INTEGER NOT NULL,
    output TEXT NOT NULL,
    at REAL NOT NULL,
    reap REAL,
    collected REAL,
    UNIQUE (agent, invocation)
) STRICT;
CREATE INDEX ends_open ON ends (parent, id) WHERE collected IS NULL;
CREATE INDEX ends_reap ON ends (reap) WHERE reap IS NOT NULL;
CREATE INDEX ends_at ON ends (at) WHERE reap IS NULL;
CREATE INDEX ends_agent ON ends (agent, id);

-- What an agent saved for its next start.
CREATE TABLE snapshots (
    agent TEXT PRIMARY KEY,
    data TEXT NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Ends before this table existed are not reported.
INSERT INTO lives (agent, ended) SELECT agent, '*' FROM runs;
