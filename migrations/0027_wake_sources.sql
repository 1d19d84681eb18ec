-- Who or what caused a wake, as the agent that woke itself says. NULL: it did not say.
ALTER TABLE messages ADD COLUMN source TEXT;
