"""What a session remembers over its conversations: artifacts that a reflection writes."""
