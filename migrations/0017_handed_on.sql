-- Tasks that got another assigner because theirs was destroyed, whose history and new assigner do
-- not have the news yet. `party` and `name` are the party that caused it.
CREATE TABLE handed_on (
    number INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    party TEXT NOT NULL,
    name TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;
