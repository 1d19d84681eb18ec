-- The cause of a wake, as reported by the agent that woke itself. NULL: not reported.
ALTER TABLE messages ADD COLUMN source TEXT;
