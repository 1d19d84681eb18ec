-- Why the session of an agent says that it waits; empty: it does not.
ALTER TABLE lives ADD COLUMN blocked TEXT NOT NULL DEFAULT '';
