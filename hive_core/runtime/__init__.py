"""The built-in runtime: a process beside a session that speaks to the model and nothing else."""
