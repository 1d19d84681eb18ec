"""hive-notify: tells people what waits for them, by ntfy, webhooks and apprise."""
