"""Commands about work: mail, tasks, plans, questions, triggers, artifacts, budgets."""
