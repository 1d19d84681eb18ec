-- Requests that wait for an answer; named queues, topics and pipes.

-- Why an inbox is being emptied, a part at a time: its owner was destroyed. Empty for all others.
ALTER TABLE parties ADD COLUMN gone TEXT NOT NULL DEFAULT '';
CREATE INDEX parties_gone ON parties (id) WHERE gone <> '';

-- Messages whose sender waits for an answer until that time.
CREATE TABLE requests (
    message INTEGER PRIMARY KEY,
    party INTEGER NOT NULL,
    until REAL NOT NULL
) STRICT;
CREATE INDEX requests_party ON requests (party);

-- Named queues. owner: UUID. may_put and may_take: JSON, words and UUIDs. The counters include dead
-- items. A closed queue is emptied a part at a time.
CREATE TABLE queues (
    number INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    may_put TEXT NOT NULL,
    may_take TEXT NOT NULL,
    most INTEGER NOT NULL,
    opened REAL NOT NULL,
    things INTEGER NOT NULL DEFAULT 0 CHECK (things >= 0),
    bytes INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    closed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX queues_name ON queues (owner, name) WHERE closed = 0;
CREATE INDEX queues_closed ON queues (number) WHERE closed = 1;

-- Items of queues; a row never changes. Ids are never reused.
CREATE TABLE things (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue INTEGER NOT NULL,
    sender TEXT NOT NULL,
    sender_name TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 3),
    put_at REAL NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- The place of each item, clustered by urgency and age; state: 0 ready, 1 taken, 2 dead. taker: the
-- last taker; due: the end of its lease.
CREATE TABLE lines (
    queue INTEGER NOT NULL,
    state INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    size INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    taker TEXT,
    due REAL,
    PRIMARY KEY (queue, state, rank, id)
) STRICT, WITHOUT ROWID;
-- Taking items of one kind reads only those.
CREATE INDEX lines_kind ON lines (queue, state, kind, rank, id);
CREATE INDEX lines_due ON lines (queue, due) WHERE due IS NOT NULL;
CREATE INDEX lines_taker ON lines (taker) WHERE state = 1;

-- The followers of each topic.
CREATE TABLE follows (
    topic TEXT NOT NULL,
    party TEXT NOT NULL,
    PRIMARY KEY (topic, party)
) STRICT, WITHOUT ROWID;
CREATE INDEX follows_party ON follows (party);

-- Pipes between a parent and its child, both by UUID; closed names the party that closed it.
CREATE TABLE pipes (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    parent TEXT NOT NULL,
    child TEXT NOT NULL,
    opened REAL NOT NULL,
    closed TEXT NOT NULL DEFAULT '',
    to_parent INTEGER NOT NULL DEFAULT 0,
    to_child INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX pipes_parent ON pipes (parent);
CREATE INDEX pipes_child ON pipes (child);

-- Chunks of a pipe that are not read yet, numbered in each direction.
CREATE TABLE chunks (
    pipe INTEGER NOT NULL,
    reader TEXT NOT NULL,
    seq INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (pipe, reader, seq)
) STRICT, WITHOUT ROWID;
