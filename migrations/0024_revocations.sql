-- Access that is taken away: `agent` moved or was restored, `lost` (UUIDs as JSON, the highest
-- first) were above it and are not any more.
CREATE TABLE revocations (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    lost TEXT NOT NULL,
    restart INTEGER NOT NULL,
    latest REAL,
    came_back INTEGER NOT NULL,
    state TEXT NOT NULL,
    since REAL NOT NULL,
    ended REAL
) STRICT;
CREATE INDEX revocations_open ON revocations (id) WHERE ended IS NULL;

-- Who was told to restart, and with which nonce; of one that is `left`: who runs on.
CREATE TABLE revoked (
    revocation INTEGER NOT NULL,
    agent TEXT NOT NULL,
    nonce INTEGER NOT NULL,
    PRIMARY KEY (revocation, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX revoked_agent ON revoked (agent);

-- Who was above a destroyed agent: UUIDs as JSON, the highest first.
ALTER TABLE archives ADD COLUMN above TEXT NOT NULL DEFAULT '[]';
-- Capabilities of its spec that were taken from one of those meanwhile, as JSON.
ALTER TABLE archives ADD COLUMN struck TEXT NOT NULL DEFAULT '[]';
