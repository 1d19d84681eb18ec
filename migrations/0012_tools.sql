-- Grants to use a tool, each for one use: a row exists until it is used (the events record its
-- use). `argument` is a JSON list of words.
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    argument TEXT NOT NULL,
    task TEXT NOT NULL DEFAULT '',
    at REAL NOT NULL,
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_agent ON grants (agent);
CREATE INDEX grants_expires ON grants (expires);

-- Definitions of agents, as written by the operator: what a new agent of that kind starts with.
CREATE TABLE definitions (
    name TEXT PRIMARY KEY,
    description TEXT NOT NULL,
    fields TEXT NOT NULL,
    body TEXT NOT NULL,
    at REAL NOT NULL
) STRICT, WITHOUT ROWID;
