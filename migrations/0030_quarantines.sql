-- Agents that are held, with all agents below them, until the operator lifts that.
CREATE TABLE quarantines (
    agent TEXT PRIMARY KEY,
    by TEXT NOT NULL,
    reason TEXT NOT NULL,
    since REAL NOT NULL
) STRICT, WITHOUT ROWID;
