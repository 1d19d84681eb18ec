-- Access that is being revoked: `agent` moved or was restored; `lost` (UUIDs as JSON, highest
-- first) were above it and no longer are.
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

-- The agents that were requested to restart, with the nonce; for state `left`: those still running.
CREATE TABLE revoked (
    revocation INTEGER NOT NULL,
    agent TEXT NOT NULL,
    nonce INTEGER NOT NULL,
    PRIMARY KEY (revocation, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX revoked_agent ON revoked (agent);

-- The ancestors of a destroyed agent: UUIDs as JSON, highest first.
ALTER TABLE archives ADD COLUMN above TEXT NOT NULL DEFAULT '[]';
-- Capabilities of its spec that one of those ancestors lost meanwhile, as JSON.
ALTER TABLE archives ADD COLUMN struck TEXT NOT NULL DEFAULT '[]';
