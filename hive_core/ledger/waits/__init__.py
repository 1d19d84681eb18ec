"""Rows of waits."""
