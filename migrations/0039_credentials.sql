-- What is known of the secrets of agents, without their values: the account that one opens, the
-- tools that take it, and the newest report since its value was set that it has expired.
CREATE TABLE credentials (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    provider TEXT NOT NULL DEFAULT '',
    alias TEXT NOT NULL DEFAULT '',
    identity TEXT NOT NULL DEFAULT '',
    tools TEXT NOT NULL DEFAULT '[]',
    message TEXT,
    link TEXT,
    question TEXT,
    PRIMARY KEY (agent, key)
) STRICT, WITHOUT ROWID;
