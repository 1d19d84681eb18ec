"""What runs in a job container, on bytes that agents wrote. Standard library only.

A job believes nothing that it reads, and nobody believes a job more than that: what it hands back
is bounded and checked again by the daemon.
"""
