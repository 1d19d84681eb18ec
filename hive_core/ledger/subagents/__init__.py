"""Rows of sub-agents."""
