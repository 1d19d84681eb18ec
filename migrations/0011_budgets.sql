-- What was allotted and what was spent, agent by agent.

-- `free` is neither spent nor given on, `over` was used beyond it. Of time: `runners` machines
-- draw on it since `as_of`, milliseconds since 1970. For calls a minute, `free` is the bound.
CREATE TABLE purses (
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    tier TEXT NOT NULL DEFAULT '',
    free INTEGER NOT NULL CHECK (free >= 0),
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    over INTEGER NOT NULL DEFAULT 0 CHECK (over >= 0 AND (over = 0 OR free = 0)),
    warned INTEGER NOT NULL DEFAULT 0,
    runners INTEGER NOT NULL DEFAULT 0,
    as_of INTEGER NOT NULL DEFAULT 0,
    dry_at INTEGER,
    PRIMARY KEY (agent, kind, tier)
) STRICT, WITHOUT ROWID;
CREATE INDEX purses_dry ON purses (dry_at) WHERE dry_at IS NOT NULL;

-- Purses with nothing in them: who was asked for more, and when work on it is stopped.
CREATE TABLE shortages (
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    tier TEXT NOT NULL,
    since REAL NOT NULL,
    asked TEXT NOT NULL,
    question TEXT NOT NULL DEFAULT '',
    stop_at REAL,
    stopped TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (agent, kind, tier)
) STRICT, WITHOUT ROWID;
CREATE INDEX shortages_stop ON shortages (stop_at) WHERE stop_at IS NOT NULL;

-- Machines that run, and since when (milliseconds since 1970): their time is not yet in `usage`.
CREATE TABLE running (
    agent TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What was used, summed up by day (of UTC).
CREATE TABLE usage (
    day INTEGER NOT NULL,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    tier TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    amount INTEGER NOT NULL,
    PRIMARY KEY (agent, day, kind, source, tier, model)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_day ON usage (day);

-- Who those were that are no more, and where they hung.
CREATE TABLE departed (
    agent TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    parent TEXT NOT NULL DEFAULT '',
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- The same figures task by task, and what a task may use at most (JSON; reached: it was told).
CREATE TABLE task_usage (
    task TEXT NOT NULL,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    amount INTEGER NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (task, kind, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_usage_at ON task_usage (at);
CREATE TABLE task_caps (
    task TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    caps TEXT NOT NULL,
    reached TEXT NOT NULL DEFAULT '',
    stop_at REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX task_caps_stop ON task_caps (stop_at) WHERE stop_at IS NOT NULL;
