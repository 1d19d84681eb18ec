-- Budgets of single tasks, and bounds of what agents report: tokens in an hour, size of a context.

-- Given out of `source`: the purse of an agent (its UUID), the budget of another task (its id), or
-- nobody's (empty). What is left goes back there when the task ends.
CREATE TABLE task_purses (
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    source TEXT NOT NULL,
    free INTEGER NOT NULL CHECK (free >= 0),
    spent INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
    over INTEGER NOT NULL DEFAULT 0 CHECK (over >= 0 AND (over = 0 OR free = 0)),
    warned INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_purses_source ON task_purses (source, kind);

-- Tokens by minute (JSON, the newest first) for an agent with all below it; `at`: when the newest
-- of these minutes began, in seconds since 1970.
CREATE TABLE token_hours (
    agent TEXT PRIMARY KEY,
    at REAL NOT NULL,
    counts TEXT NOT NULL,
    warned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- How big an agent said that its context is.
CREATE TABLE contexts (
    agent TEXT PRIMARY KEY,
    tokens INTEGER NOT NULL CHECK (tokens >= 0),
    warned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
