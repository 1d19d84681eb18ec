-- The one call beyond the budget of a task, of its present attempt: its agent says what it has.
CREATE TABLE model_hand_backs (
    task TEXT PRIMARY KEY,
    attempt INTEGER NOT NULL,
    call TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT OR REPLACE INTO model_hand_backs
    SELECT calls.task, tasks.attempt, calls.id FROM model_calls AS calls
    JOIN tasks ON tasks.id = calls.task
    WHERE calls.hand_back = 1 AND tasks.ended IS NULL;
DROP INDEX model_calls_task;
