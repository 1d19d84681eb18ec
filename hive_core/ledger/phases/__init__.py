"""Rows of phases."""
