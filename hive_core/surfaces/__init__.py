"""Views derived from the registry of operations."""
