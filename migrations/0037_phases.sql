-- The phase of a queen; without a row she is independent. `colony`: UUID of the agent that is her open
-- colony, or empty; the user says what it is for. `closes`: when the colony is closed, since its agent
-- was destroyed.
CREATE TABLE phases (
    agent TEXT PRIMARY KEY,
    phase TEXT NOT NULL,
    colony TEXT NOT NULL,
    goal TEXT NOT NULL,
    criteria TEXT NOT NULL,
    constraints TEXT NOT NULL,
    persona TEXT NOT NULL,
    since REAL NOT NULL,
    closes REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX phases_closes ON phases (closes) WHERE closes IS NOT NULL;

-- Tasks and batches of the present run of a colony. `outcome` is empty until one has ended.
CREATE TABLE phase_work (
    work TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    title TEXT NOT NULL,
    outcome TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX phase_work_agent ON phase_work (agent);
