-- The ledger's first tables. Agents are identified by UUID, never by name; `operator` and `daemon`
-- are the two other parties. Times are seconds since 1970 in UTC. Triggers that the ledger
-- generates from model/states.py abort illegal changes of recorded states.

-- Single values: head (commit of the meta repository in force), mail (highest message id ever
-- deleted), events_tail and events_base (ends of the hash chain).
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Whether an agent should run now. A new nonce requests a fresh start.
CREATE TABLE runs (
    agent TEXT PRIMARY KEY,
    wanted TEXT NOT NULL CHECK (wanted IN ('running', 'stopped', 'sleeping')),
    nonce INTEGER NOT NULL,
    grace REAL NOT NULL,
    since REAL NOT NULL,
    reason TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- All parties with an inbox, and its size: counters, because COUNT(*) takes longer the fuller the
-- inbox is.
CREATE TABLE parties (
    id INTEGER PRIMARY KEY,
    party TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0,
    live INTEGER NOT NULL DEFAULT 0 CHECK (live >= 0),
    live_bytes INTEGER NOT NULL DEFAULT 0 CHECK (live_bytes >= 0),
    dead INTEGER NOT NULL DEFAULT 0 CHECK (dead >= 0),
    dead_bytes INTEGER NOT NULL DEFAULT 0 CHECK (dead_bytes >= 0),
    done INTEGER NOT NULL DEFAULT 0 CHECK (done >= 0),
    done_bytes INTEGER NOT NULL DEFAULT 0 CHECK (done_bytes >= 0)
) STRICT;

-- Messages; a row never changes. A message that starts its own thread has thread NULL, so that only
-- answers need an index entry.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    sender INTEGER NOT NULL,
    recipient INTEGER NOT NULL,
    relation TEXT NOT NULL,
    kind TEXT NOT NULL,
    thread TEXT,
    reply_to INTEGER,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 3),
    sent_at REAL NOT NULL,
    expires_at REAL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX messages_thread ON messages (thread) WHERE thread IS NOT NULL;

-- The place of each message, clustered in the order of delivery. state: 0 ready, 1 leased, 2 leased
-- by an earlier daemon, 3 dead letter, 4 acked. rank: the priority in the first three states, else
-- 0. due: the end of the lease, or of a ready message's time to live.
CREATE TABLE queue (
    inbox INTEGER NOT NULL,
    state INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    id INTEGER NOT NULL,
    size INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    due REAL,
    why TEXT,
    PRIMARY KEY (inbox, state, rank, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_due ON queue (due) WHERE due IS NOT NULL;

-- The audit log. body is the canonical JSON that the digest covers; digests form a chain.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE TABLE reads (
    caller TEXT NOT NULL,
    operation TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (caller, operation)
) STRICT, WITHOUT ROWID;

-- Stored results of calls with an idempotency key.
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    operation TEXT NOT NULL,
    result TEXT NOT NULL,
    at REAL NOT NULL,
    UNIQUE (caller, key)
) STRICT;

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    operation TEXT NOT NULL,
    caller TEXT NOT NULL,
    goals TEXT NOT NULL,
    state TEXT NOT NULL,
    started REAL NOT NULL,
    ended REAL,
    error TEXT NOT NULL DEFAULT '',
    progress TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX jobs_open ON jobs (id) WHERE ended IS NULL;

-- Uid ranges. A row without an agent was released after its storage was wiped.
CREATE TABLE ranges (
    base INTEGER PRIMARY KEY,
    agent TEXT UNIQUE,
    released INTEGER
) STRICT;

-- Destroyed agents whose storage still exists.
CREATE TABLE archives (
    uuid TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    parent TEXT,
    at REAL NOT NULL,
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
-- Every UUID that was ever destroyed. It can return only by a restore of its archive.
CREATE TABLE tombstones (
    uuid TEXT PRIMARY KEY,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Back-off of failed agents: the value of model/agents/machine.py as JSON.
CREATE TABLE starts (
    agent TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
