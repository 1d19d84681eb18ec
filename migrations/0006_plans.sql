-- Plans of tasks, waits, and batches of tasks for several agents.

CREATE TABLE plans (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    agent TEXT NOT NULL,
    note TEXT NOT NULL,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    decided_by TEXT NOT NULL DEFAULT '',
    decided REAL,
    reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX plans_task ON plans (task, number);
CREATE INDEX plans_agent ON plans (agent, number);

CREATE TABLE plan_steps (
    plan TEXT NOT NULL,
    step INTEGER NOT NULL,
    title TEXT NOT NULL,
    detail TEXT NOT NULL,
    tools TEXT NOT NULL,
    state TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (plan, step)
) STRICT, WITHOUT ROWID;

CREATE TABLE waits (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    mode TEXT NOT NULL,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    deadline REAL NOT NULL,
    ended REAL,
    message TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX waits_open ON waits (agent, number) WHERE state = 'waiting';
CREATE INDEX waits_due ON waits (deadline) WHERE state = 'waiting';
CREATE INDEX waits_message ON waits (message) WHERE message <> '';
CREATE INDEX waits_ended ON waits (ended) WHERE ended IS NOT NULL;

-- What a wait is for: tasks that have to end, or agents that have to write.
CREATE TABLE awaited (
    wait TEXT NOT NULL,
    kind TEXT NOT NULL,
    thing TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (wait, kind, thing)
) STRICT, WITHOUT ROWID;
CREATE INDEX awaited_thing ON awaited (kind, thing);

-- `due`: when the batch is next processed; `deadline`: when its open tasks are ended.
CREATE TABLE batches (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    title TEXT NOT NULL,
    state TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    requeue INTEGER NOT NULL,
    keeps INTEGER NOT NULL,
    template TEXT NOT NULL,
    made INTEGER NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    deadline REAL NOT NULL,
    due REAL,
    ended REAL,
    reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX batches_due ON batches (due) WHERE due IS NOT NULL;
CREATE INDEX batches_deadline ON batches (deadline) WHERE state = 'running' AND reason = '';
CREATE INDEX batches_ended ON batches (ended) WHERE ended IS NOT NULL;
CREATE INDEX batches_owner ON batches (owner, number);

-- The tasks of a batch in the order of the call; `task` is set when one was assigned.
CREATE TABLE batch_items (
    batch TEXT NOT NULL,
    item INTEGER NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    task TEXT NOT NULL DEFAULT '',
    worker TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (batch, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_items_task ON batch_items (task) WHERE task <> '';
CREATE INDEX batch_items_open ON batch_items (batch, state);

-- The workers of a batch; `own`: created for it and destroyed with it.
CREATE TABLE batch_workers (
    batch TEXT NOT NULL,
    agent TEXT NOT NULL,
    own INTEGER NOT NULL,
    PRIMARY KEY (batch, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_workers_agent ON batch_workers (agent);

-- Work that was stopped in one call, until all of it has really stopped.
CREATE TABLE stops (
    job TEXT PRIMARY KEY,
    deadline REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX stops_due ON stops (deadline);
CREATE TABLE stopped_tasks (
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    task TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX stopped_tasks_task ON stopped_tasks (task);
