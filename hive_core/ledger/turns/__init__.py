"""Rows of turns."""
