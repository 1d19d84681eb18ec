-- Events that were removed from the middle of the chain, because their branch had the most: runs of
-- numbers, and the digest of the last of each, from which the chain continues.
CREATE TABLE thinned_events (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
