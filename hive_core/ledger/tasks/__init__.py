"""Rows of tasks and of what belongs to them."""
