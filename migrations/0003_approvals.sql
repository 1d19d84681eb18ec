-- What agents want to become, and what they were.

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

-- What a deploy has done so far: a daemon that starts again goes on from here. `before` holds the
-- fields of the spec as they were, `until` the end of the window.
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

-- A change that touches many agents: who comes in which wave, and how each of them came out.
CREATE TABLE waves (
    rollout TEXT NOT NULL,
    wave INTEGER NOT NULL,
    agent TEXT NOT NULL,
    approval TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL DEFAULT 'waiting',
    PRIMARY KEY (rollout, agent)
) STRICT, WITHOUT ROWID;

-- What an agent says of itself: a claim.
CREATE TABLE hellos (
    agent TEXT PRIMARY KEY,
    at REAL NOT NULL,
    nonce INTEGER NOT NULL,
    "commit" TEXT NOT NULL DEFAULT '',
    system TEXT NOT NULL DEFAULT '',
    fault TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
