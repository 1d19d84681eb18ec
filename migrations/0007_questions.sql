-- Questions, escalations and reminders.

-- `owed`: when mail about it is sent again after a full inbox. `gone`: when the row is deleted.
CREATE TABLE questions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    asker TEXT NOT NULL,
    holder TEXT NOT NULL,
    items TEXT NOT NULL,
    state TEXT NOT NULL,
    asked REAL NOT NULL,
    context TEXT NOT NULL DEFAULT '',
    severity TEXT NOT NULL DEFAULT '',
    task TEXT NOT NULL DEFAULT '',
    deadline REAL,
    climbs REAL,
    answers TEXT NOT NULL DEFAULT '[]',
    answered_by TEXT NOT NULL DEFAULT '',
    ended REAL,
    reason TEXT NOT NULL DEFAULT '',
    owed REAL,
    gone REAL
) STRICT;
CREATE INDEX questions_asked ON questions (asker, number);
CREATE INDEX questions_held ON questions (holder, number);
CREATE INDEX questions_open_asked ON questions (asker, number) WHERE ended IS NULL;
CREATE INDEX questions_open_held ON questions (holder, number) WHERE ended IS NULL;
CREATE INDEX questions_open ON questions (number) WHERE ended IS NULL;
CREATE INDEX questions_task ON questions (task) WHERE task <> '';
CREATE INDEX questions_deadline ON questions (deadline) WHERE ended IS NULL AND deadline NOT NULL;
CREATE INDEX questions_climbs ON questions (climbs) WHERE ended IS NULL AND climbs NOT NULL;
CREATE INDEX questions_owed ON questions (owed) WHERE owed NOT NULL;
CREATE INDEX questions_gone ON questions (gone) WHERE gone NOT NULL;

-- The holders of each question, in order.
CREATE TABLE hops (
    question TEXT NOT NULL,
    step INTEGER NOT NULL,
    holder TEXT NOT NULL,
    at REAL NOT NULL,
    by TEXT NOT NULL,
    why TEXT NOT NULL,
    letter TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (question, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX hops_holder ON hops (holder);

CREATE TABLE reminders (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    setter TEXT NOT NULL,
    body TEXT NOT NULL,
    due REAL NOT NULL,
    relative INTEGER NOT NULL,
    made REAL NOT NULL
) STRICT;
CREATE INDEX reminders_due ON reminders (due);
CREATE INDEX reminders_owner ON reminders (owner, number);
CREATE INDEX reminders_setter ON reminders (setter);
