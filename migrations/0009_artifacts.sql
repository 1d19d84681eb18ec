-- Artifacts: the record of each version; the bytes are files beside the ledger.

-- `lineage`: UUIDs of the owner's ancestors when it was stored, the root first. `root` is the first
-- of them, or the owner.
CREATE TABLE artifacts (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    author TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    visibility TEXT NOT NULL,
    digest TEXT NOT NULL,
    size INTEGER NOT NULL,
    created REAL NOT NULL,
    lineage TEXT NOT NULL,
    root TEXT NOT NULL,
    latest INTEGER NOT NULL DEFAULT 1,
    UNIQUE (owner, name, version)
) STRICT;
CREATE INDEX artifacts_digest ON artifacts (digest);
CREATE INDEX artifacts_called ON artifacts (owner_name, owner);
CREATE INDEX artifacts_latest ON artifacts (number) WHERE latest;
CREATE INDEX artifacts_owner ON artifacts (owner, number) WHERE latest;

-- The highest version of a name since its creation, so that no number is used twice.
CREATE TABLE artifact_names (
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

-- `blocks`: the SHA-256 of each block of 256 KiB, so that a part can be verified alone.
CREATE TABLE contents (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    blocks BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Contents without references, until their files are removed.
CREATE TABLE old_contents (digest TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- The use of storage by each agent, and under each root (`tree:` and its UUID).
CREATE TABLE artifact_use (
    party TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The agents that were below a destroyed agent and remained.
CREATE TABLE heirs (
    gone TEXT NOT NULL,
    heir TEXT NOT NULL,
    PRIMARY KEY (gone, heir)
) STRICT, WITHOUT ROWID;
CREATE INDEX heirs_heir ON heirs (heir);
