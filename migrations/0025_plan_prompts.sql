-- The message that asks for a decision on a plan, and whom: it is taken back when that is made.
ALTER TABLE plans ADD COLUMN asked TEXT NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN letter TEXT NOT NULL DEFAULT '';
