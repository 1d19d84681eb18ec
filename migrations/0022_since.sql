-- When each range was allocated: the creation time of its agent. NULL: before this was recorded.
ALTER TABLE ranges ADD COLUMN given REAL;
