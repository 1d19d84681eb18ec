-- Requested configurations of agents, and their generations.

CREATE TABLE approvals (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    agent TEXT NOT NULL,
    requester TEXT NOT NULL,
    source TEXT NOT NULL,
    message TEXT NOT NULL,
    binding TEXT NOT NULL,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    expires REAL NOT NULL,
    job TEXT NOT NULL DEFAULT '',
    effect TEXT NOT NULL DEFAULT 'nothing',
    wishes TEXT NOT NULL DEFAULT '{}',
    review TEXT NOT NULL DEFAULT '{}',
    decided_by TEXT NOT NULL DEFAULT '',
    decided REAL,
    ended REAL,
    reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX approvals_open ON approvals (agent) WHERE ended IS NULL;
CREATE INDEX approvals_agent ON approvals (agent, number);
CREATE INDEX approvals_requester ON approvals (requester, number);
CREATE INDEX approvals_created ON approvals (created);

-- The progress of a deploy: a restarted daemon continues from it. `before` holds the earlier fields
-- of the spec, `until` the end of the health window.
CREATE TABLE deploys (
    approval TEXT PRIMARY KEY,
    before TEXT NOT NULL,
    generation INTEGER NOT NULL,
    commit_before TEXT NOT NULL,
    nonce INTEGER,
    until REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE generations (
    agent TEXT NOT NULL,
    number INTEGER NOT NULL,
    "commit" TEXT NOT NULL,
    approval TEXT NOT NULL,
    at REAL NOT NULL,
    system TEXT NOT NULL DEFAULT '',
    fields TEXT NOT NULL DEFAULT '{}',
    failed TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (agent, number)
) STRICT, WITHOUT ROWID;

-- A change of many agents: the wave and the outcome of each agent.
CREATE TABLE waves (
    rollout TEXT NOT NULL,
    wave INTEGER NOT NULL,
    agent TEXT NOT NULL,
    approval TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'waiting',
    PRIMARY KEY (rollout, agent)
) STRICT, WITHOUT ROWID;

-- What an agent reports about itself. It is a claim.
CREATE TABLE hellos (
    agent TEXT PRIMARY KEY,
    at REAL NOT NULL,
    nonce INTEGER NOT NULL,
    "commit" TEXT NOT NULL DEFAULT '',
    system TEXT NOT NULL DEFAULT '',
    fault TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
