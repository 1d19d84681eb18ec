"""Sub-agents of a session: helpers in its container, named ones and exact clones of itself."""
