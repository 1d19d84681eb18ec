"""Rows of colonies."""
