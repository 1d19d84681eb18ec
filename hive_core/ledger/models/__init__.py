"""Calls of models: reservations, what they hold, and agents that were refused."""
