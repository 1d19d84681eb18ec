"""Rows of plans."""
