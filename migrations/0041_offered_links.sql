-- Links of notifications, each for one call that ends or refuses something, or gives an offered
-- answer. `state` is the digest of what it was about when it was offered.
CREATE TABLE offered_links (
    digest TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL,
    operation TEXT NOT NULL,
    parameters TEXT NOT NULL,
    label TEXT NOT NULL,
    state TEXT NOT NULL,
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
