-- The message that requests a decision on a plan, and its recipient: it is withdrawn at the
-- decision.
ALTER TABLE plans ADD COLUMN asked TEXT NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN letter TEXT NOT NULL DEFAULT '';
