-- What an agent was offered and has not ended: a task has a letter as long as its agent may work on
-- it, begun or not.

CREATE INDEX tasks_held ON tasks (assignee, number) WHERE ended IS NULL AND message <> '';
