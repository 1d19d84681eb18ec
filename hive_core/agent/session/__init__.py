"""`hive-agent session`: runs a model as an agent, with a log that survives every crash."""
