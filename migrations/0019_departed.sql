-- What those used who are no more is added up, line by line, and they are forgotten.

-- `brief`: made for one task; its line goes first.
ALTER TABLE departed ADD COLUMN brief INTEGER NOT NULL DEFAULT 0;
CREATE INDEX departed_at ON departed (brief, at);
CREATE INDEX departed_parent ON departed (parent);
CREATE INDEX task_usage_agent ON task_usage (agent, at);
