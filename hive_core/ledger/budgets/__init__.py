"""Rows of budgets and of what was used."""
