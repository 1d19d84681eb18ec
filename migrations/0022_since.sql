-- When each range was given: an agent runs with what it was made with from then on. NULL: before
-- this was written down.
ALTER TABLE ranges ADD COLUMN given REAL;
