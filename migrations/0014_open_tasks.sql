-- The activity of an agent and its next task are read at each step of a task; these indexes avoid
-- reading all of its open tasks.

CREATE INDEX tasks_open ON tasks (assignee, state, priority, number) WHERE ended IS NULL;
