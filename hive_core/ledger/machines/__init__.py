"""Rows of machines: runs, exits, check-ins, uid ranges."""
