-- Tasks that were offered to an agent and have not ended: a task has a message while its agent may
-- work on it, begun or not.

CREATE INDEX tasks_held ON tasks (assignee, number) WHERE ended IS NULL AND message <> '';
