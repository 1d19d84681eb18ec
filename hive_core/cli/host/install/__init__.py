"""Making a machine a hive host, and undoing it. Deciding what to write is separate from writing."""
