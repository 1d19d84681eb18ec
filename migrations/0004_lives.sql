-- How machines ended, and what an agent left for its next start.

-- One row an agent. invocation: the start that was told last, up while its end was not told yet.
-- ended: the last end of which systemd left a record. activity: idle, running or blocked. What it
-- does at `due` because its last task has ended: `sleeps` or `exits`.
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

-- Every end, each once. stays: the agent does not come back by itself. reap: when it is destroyed
-- for having ended. collected: its parent has asked how it ended, or nobody has to any more.
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

-- What an agent keeps for its next start.
CREATE TABLE snapshots (
    agent TEXT PRIMARY KEY,
    data TEXT NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Of what had ended before this table nobody is told.
INSERT INTO lives (agent, ended) SELECT agent, '*' FROM runs;
