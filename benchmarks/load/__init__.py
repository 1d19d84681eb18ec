"""What loads a service while it is measured: programs, each a process of its own, and browsers."""
