-- The turns of sessions, as their agents recorded them: the last ones of each agent.
CREATE TABLE turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    conversation TEXT NOT NULL,
    turn INTEGER NOT NULL,
    status TEXT NOT NULL,
    task TEXT NOT NULL,
    began REAL,
    ended REAL NOT NULL,
    system TEXT NOT NULL,
    input TEXT NOT NULL,
    text TEXT NOT NULL,
    error TEXT NOT NULL,
    cut INTEGER NOT NULL,
    size INTEGER NOT NULL
) STRICT;
-- The bounds are computed from the index alone.
CREATE INDEX turns_size ON turns (agent, number, size);
CREATE UNIQUE INDEX turns_name ON turns (agent, conversation, turn);
