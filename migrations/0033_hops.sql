-- How many messages of agents a message follows from: each was sent in the turn of the one before.
ALTER TABLE messages ADD COLUMN hops INTEGER NOT NULL DEFAULT 0;
