"""Files that people write, settings and agent configurations, and their validation."""
