"""Rows of agents: archives, definitions, revocations."""
