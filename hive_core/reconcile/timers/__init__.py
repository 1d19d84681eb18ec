"""What the daemon does when its time has come."""
