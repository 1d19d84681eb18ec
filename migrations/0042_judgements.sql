-- The result of a task with criteria, until it is judged, and the letter that asks its assigner.
CREATE TABLE delivered_results (
    task TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    result TEXT NOT NULL,
    asked TEXT NOT NULL DEFAULT '',
    letter TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
-- The verdicts on the results of a task, in their order; `agent` is the one that is judged.
CREATE TABLE judgements (
    number INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    agent TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    judge TEXT NOT NULL,
    feedback TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX judgements_task ON judgements (task, number);
CREATE INDEX judgements_agent ON judgements (agent, number);
