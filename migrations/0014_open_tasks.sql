-- What an agent is at, and what it gets next, are asked at each step of a task: without reading
-- all that it still has to do.

CREATE INDEX tasks_open ON tasks (assignee, state, priority, number) WHERE ended IS NULL;
