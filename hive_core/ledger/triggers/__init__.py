"""Rows of triggers, their runs, and reminders."""
