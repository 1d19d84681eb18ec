-- Tasks that are ended together: a number of them in each step, and none of the others begins.
-- `party` and `name` are the party that ends them, `status` is the status in their results.
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
