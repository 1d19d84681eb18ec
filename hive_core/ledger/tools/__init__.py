"""Rows of tool grants."""
