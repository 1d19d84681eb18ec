-- Notes of agents are stored outside the audit chain, with their own limits in bytes.

-- Events and notes share one sequence of numbers.
CREATE TABLE notes (
    seq INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    at REAL NOT NULL,
    size INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX notes_agent ON notes (agent, seq);

-- The bytes of an agent's notes, and the newest number that it lost to a limit. `branch` is the
-- child of a root that it was below at its last note. The row of '' stands for agents without a
-- row.
CREATE TABLE note_use (
    agent TEXT PRIMARY KEY,
    branch TEXT NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Notes that were in the chain before: the digest of the last of each run, from which the chain
-- continues.
CREATE TABLE moved_notes (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;

-- The newest MiB of each agent, and 16 MiB of all; older ones are deleted, as by the limits. The
-- sort uses no texts, of which there may be gigabytes.
INSERT INTO notes
SELECT e.seq, chosen.agent, json_extract(e.body, '$.kind'), json_extract(e.body, '$.time'),
    chosen.size, e.body
FROM (
    SELECT *, SUM(size) OVER (ORDER BY seq DESC) AS everybody FROM (
        SELECT *, SUM(size) OVER (PARTITION BY agent ORDER BY seq DESC) AS own FROM (
            SELECT seq, json_extract(body, '$.caller') AS agent,
                length(CAST(body AS BLOB)) + 200 AS size
            FROM events
            WHERE instr(body, ',"kind":"own.') > 0 AND json_extract(body, '$.kind') LIKE 'own.%'
        )
    ) WHERE own <= 1048576
) AS chosen CROSS JOIN events e ON e.seq = chosen.seq
WHERE chosen.everybody <= 16777216;

INSERT INTO moved_notes
SELECT first, last, (SELECT digest FROM events WHERE seq = last) FROM (
    SELECT MIN(seq) AS first, MAX(seq) AS last FROM (
        SELECT seq, seq - ROW_NUMBER() OVER (ORDER BY seq) AS run FROM events
        WHERE instr(body, ',"kind":"own.') > 0 AND json_extract(body, '$.kind') LIKE 'own.%'
    ) GROUP BY run
);

INSERT INTO note_use (agent, branch, bytes, lost)
SELECT agent, agent, COALESCE(SUM(kept), 0), COALESCE(MAX(CASE WHEN kept IS NULL THEN seq END), 0)
FROM (
    SELECT e.seq, json_extract(e.body, '$.caller') AS agent, n.size AS kept
    FROM moved_notes m CROSS JOIN events e ON e.seq BETWEEN m.first AND m.last
    LEFT JOIN notes n ON n.seq = e.seq
) GROUP BY agent;

DELETE FROM events WHERE seq IN (
    SELECT e.seq FROM moved_notes m CROSS JOIN events e ON e.seq BETWEEN m.first AND m.last
);

-- Triggers keep the counts consistent with the table.
CREATE TRIGGER notes_added AFTER INSERT ON notes BEGIN
    UPDATE note_use SET bytes = bytes + NEW.size WHERE agent = NEW.agent;
END;
CREATE TRIGGER notes_removed AFTER DELETE ON notes BEGIN
    UPDATE note_use SET bytes = bytes - OLD.size, lost = MAX(lost, OLD.seq)
    WHERE agent = OLD.agent;
END;

-- The number of events in the chain, and of bytes.
INSERT INTO meta
SELECT 'events_size', printf('%d %d', COUNT(*), COALESCE(SUM(length(CAST(body AS BLOB)) + 64), 0))
FROM events;
