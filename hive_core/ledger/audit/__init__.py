"""The audit log, and the notes of agents beside it."""
