"""Programs that run in job containers, on files that agents wrote. Standard library only.

A job trusts no input, and the daemon trusts no job: it reads the output with limits and checks it
again.
"""
