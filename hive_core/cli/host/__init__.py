"""Commands about the host: setup, status, logs, metrics, upkeep."""
