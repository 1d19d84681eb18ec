-- When a message became a dead letter, as a number that only grows; NULL: it is none, or was one
-- before this column.
ALTER TABLE queue ADD COLUMN died INTEGER;
