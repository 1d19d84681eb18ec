"""Rows of questions and escalations."""
