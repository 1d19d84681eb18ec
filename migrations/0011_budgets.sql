-- What was allotted to each agent, and what it spent.

-- `free` is neither spent nor given to others; `over` was used beyond the budget. For run time:
-- `runners` machines draw on it since `as_of`, in milliseconds since 1970. For calls a minute,
-- `free` is the limit.
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

-- Empty budgets: the party that was asked for more, and when work on it is stopped.
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

-- Running machines and their start (milliseconds since 1970): their time is not yet in `usage`.
CREATE TABLE running (
    agent TEXT PRIMARY KEY,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Usage, summed up by day (of UTC).
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

-- Destroyed agents, and their last parents.
CREATE TABLE departed (
    agent TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    parent TEXT NOT NULL DEFAULT '',
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Usage by task, and the limits of a task (JSON; reached: the first limit that was reported).
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
