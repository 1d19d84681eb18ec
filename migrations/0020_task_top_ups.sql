-- What a task got from other sources than the `source` of its task_purses row. It is returned
-- first: at most `amount` to each, the latest (the greatest `id`) first.
CREATE TABLE task_top_ups (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    UNIQUE (task, kind, source)
) STRICT;
CREATE INDEX task_top_ups_source ON task_top_ups (source, kind);

-- Agents whose queued tasks are paid for again, and that were not offered any of them yet.
CREATE TABLE waking (
    number INTEGER PRIMARY KEY,
    agent TEXT NOT NULL UNIQUE
) STRICT;
