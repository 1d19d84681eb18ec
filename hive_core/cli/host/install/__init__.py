"""Making a machine a hive host, and undoing it: what to write is decided apart from writing it."""
