-- What a task was given besides out of others than the `source` of its task_purses row, and goes
-- back there first: at most `amount` to each, the last of them (the greatest `id`) first.
CREATE TABLE task_top_ups (
    id INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    UNIQUE (task, kind, source)
) STRICT;
CREATE INDEX task_top_ups_source ON task_top_ups (source, kind);

-- Agents of whose queued tasks somebody pays again, and that are not given any of them yet.
CREATE TABLE waking (
    number INTEGER PRIMARY KEY,
    agent TEXT NOT NULL UNIQUE
) STRICT;
