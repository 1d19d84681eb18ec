-- The rules of the network of a sub-agent, as JSON; without any it has none.
ALTER TABLE sub_agents ADD COLUMN network TEXT NOT NULL DEFAULT '[]';
