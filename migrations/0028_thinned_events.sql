-- Events that were taken out of the middle of the chain, because their branch had the most of it:
-- runs of numbers, and the digest of the last of each, with which the chain goes on behind it.
CREATE TABLE thinned_events (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
