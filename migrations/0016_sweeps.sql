-- Tasks that are ended together: so many of them in each turn, and none is begun meanwhile.
-- `party` and `name` are who ends them, `status` is what their results say.
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY,
    party TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    why TEXT NOT NULL,
    grace REAL
) STRICT;
CREATE TABLE swept (
    task TEXT PRIMARY KEY,
    sweep INTEGER NOT NULL,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX swept_in_order ON swept (sweep, number);
