-- Tasks: work of one agent for another; each task ends exactly once.

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    assignee TEXT NOT NULL,
    assigner TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    part_of TEXT NOT NULL,
    batch TEXT NOT NULL,
    wish TEXT NOT NULL,
    created REAL NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    started REAL,
    ended REAL,
    soft_at REAL,
    hard_at REAL,
    -- The remaining seconds while it waits for another party.
    left REAL,
    stop TEXT NOT NULL DEFAULT '',
    stop_at REAL,
    -- The earliest of soft_at, hard_at and stop_at.
    due REAL,
    message TEXT NOT NULL DEFAULT '',
    plan TEXT NOT NULL DEFAULT '',
    why TEXT NOT NULL DEFAULT '',
    percent INTEGER,
    progress TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL DEFAULT 0,
    result TEXT
) STRICT;
CREATE INDEX tasks_assignee ON tasks (assignee, priority, number) WHERE ended IS NULL;
CREATE INDEX tasks_assigner ON tasks (assigner, number) WHERE ended IS NULL;
CREATE INDEX tasks_parts ON tasks (part_of, number) WHERE part_of <> '';
CREATE INDEX tasks_batch ON tasks (batch, number) WHERE batch <> '';
CREATE INDEX tasks_due ON tasks (due) WHERE due IS NOT NULL;
CREATE INDEX tasks_ended ON tasks (ended) WHERE ended IS NOT NULL;
CREATE INDEX tasks_of ON tasks (assignee, number);
CREATE INDEX tasks_from ON tasks (assigner, number);

-- The tasks that a task waits for. A row is deleted when that task has succeeded.
CREATE TABLE task_needs (
    task TEXT NOT NULL,
    needs TEXT NOT NULL,
    PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_needs_back ON task_needs (needs, task);

-- The last message about tasks that an assigner got, with the tasks in it; and the tasks for its
-- next message, at `due`.
CREATE TABLE task_news (
    assigner TEXT PRIMARY KEY,
    message TEXT NOT NULL,
    told TEXT NOT NULL,
    fresh TEXT NOT NULL,
    at REAL NOT NULL,
    due REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX task_news_due ON task_news (due) WHERE due IS NOT NULL;

-- The history of a task: the numbers of its events.
CREATE TABLE task_events (
    task TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (task, seq)
) STRICT, WITHOUT ROWID;
