-- Budgets of single tasks, and limits on reports of agents: tokens in an hour, size of a context.

-- Taken from `source`: the budget of an agent (its UUID), the budget of another task (its id), or
-- no budget (empty). The rest returns there when the task ends.
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

-- Tokens by minute (JSON, newest first) of an agent with all agents below it; `at`: the start of
-- the newest minute, in seconds since 1970.
CREATE TABLE token_hours (
    agent TEXT PRIMARY KEY,
    at REAL NOT NULL,
    counts TEXT NOT NULL,
    warned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The context size that an agent reported.
CREATE TABLE contexts (
    agent TEXT PRIMARY KEY,
    tokens INTEGER NOT NULL CHECK (tokens >= 0),
    warned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
