"""Rows of triggers, their fires, and reminders."""
