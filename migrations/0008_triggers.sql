-- Triggers and their runs (fires).

CREATE TABLE triggers (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    rule TEXT NOT NULL,
    act TEXT NOT NULL,
    action TEXT NOT NULL,
    missed TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    created REAL NOT NULL,
    since REAL NOT NULL,
    due REAL,
    parked INTEGER NOT NULL DEFAULT 0,
    hook TEXT UNIQUE,
    secret TEXT NOT NULL DEFAULT '',
    fired INTEGER NOT NULL DEFAULT 0,
    open INTEGER,
    UNIQUE (owner, agent, name)
) STRICT;
CREATE INDEX triggers_agent ON triggers (agent, number);
CREATE INDEX triggers_owner ON triggers (owner);
-- What is due next. A spawn is a commit and has its own transaction.
CREATE INDEX triggers_due ON triggers (due) WHERE due IS NOT NULL AND act <> 'spawn';
CREATE INDEX triggers_spawns ON triggers (due) WHERE due IS NOT NULL AND act = 'spawn';

-- `trigger` is the number of its trigger. `due`: the time that it is for; `count`: how many due
-- times it stands for; `ref`: the task or message that it created; `spawned`: the new agent.
CREATE TABLE fires (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    "trigger" INTEGER NOT NULL,
    agent TEXT NOT NULL,
    at REAL NOT NULL,
    due REAL NOT NULL,
    count INTEGER NOT NULL,
    state TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT '',
    ref TEXT NOT NULL DEFAULT '',
    spawned TEXT NOT NULL DEFAULT '',
    ended REAL,
    status TEXT NOT NULL DEFAULT '',
    code INTEGER,
    output TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX fires_trigger ON fires ("trigger", number);
CREATE INDEX fires_agent ON fires (agent, at);
CREATE INDEX fires_open ON fires (ref) WHERE state = 'open';
CREATE INDEX fires_spawned ON fires (spawned) WHERE spawned <> '';

-- Deliveries to webhooks: the same key again is the same run.
CREATE TABLE deliveries (
    hook TEXT NOT NULL,
    key TEXT NOT NULL,
    fire TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (hook, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_at ON deliveries (at);

-- Secrets of deleted webhooks, until they are removed from the store of secrets.
CREATE TABLE old_hooks (
    hook TEXT NOT NULL,
    secret TEXT NOT NULL,
    PRIMARY KEY (hook, secret)
) STRICT, WITHOUT ROWID;
