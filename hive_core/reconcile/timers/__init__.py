"""Timers: everything that the daemon does at a certain time."""
