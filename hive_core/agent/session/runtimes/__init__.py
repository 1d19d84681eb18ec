"""Runtimes of a session: processes beside it that speak to a model."""
