-- Agents that a queen prepared as colonies: what for, with which skill, and from which of her turns.
CREATE TABLE colonies (
    agent TEXT PRIMARY KEY,
    queen TEXT NOT NULL,
    task TEXT NOT NULL,
    skill TEXT NOT NULL,
    inherit TEXT NOT NULL,
    conversation TEXT NOT NULL,
    turn INTEGER NOT NULL,
    created REAL NOT NULL
) STRICT, WITHOUT ROWID;
