"""Rows of budgets and of usage."""
