"""What agents do: tasks, plans, questions, triggers, queues, artifacts and budgets."""
