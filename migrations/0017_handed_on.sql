-- Tasks that have another giver, because theirs is gone, and whose history and new giver are not
-- told of it yet. `party` and `name` are who brought that about.
CREATE TABLE handed_on (
    number INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    party TEXT NOT NULL,
    name TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;
