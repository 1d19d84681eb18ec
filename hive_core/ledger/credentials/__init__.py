"""Rows of credentials."""
