-- Open sub-agents. They end with the daemon that opened them, which `daemon` names; the next one ends the rest.
-- `tools` is JSON: a list of names. `uid` is the uid in the container, of the agent's range.
CREATE TABLE sub_agents (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    daemon TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    opener TEXT NOT NULL,
    uid INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    clone_depth INTEGER NOT NULL,
    tools TEXT NOT NULL,
    task TEXT NOT NULL,
    opened REAL NOT NULL,
    deadline REAL NOT NULL,
    UNIQUE (agent, uid)
) STRICT, WITHOUT ROWID;
CREATE INDEX sub_agents_deadline ON sub_agents (deadline);
-- The last uid of a sub-agent of each agent: the next one gets another, as processes may be left of the last.
CREATE TABLE sub_agent_uids (
    agent TEXT PRIMARY KEY,
    uid INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX model_calls_sub ON model_calls (sub) WHERE sub <> '';
