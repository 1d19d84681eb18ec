-- The usage of destroyed agents is added up, agent by agent, and their rows are deleted.

-- `brief`: created for one task; rolled up first.
ALTER TABLE departed ADD COLUMN brief INTEGER NOT NULL DEFAULT 0;
CREATE INDEX departed_at ON departed (brief, at);
CREATE INDEX departed_parent ON departed (parent);
CREATE INDEX task_usage_agent ON task_usage (agent, at);
