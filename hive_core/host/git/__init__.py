"""The meta repository, and all of the daemon's access to git.

Only modules in this package may import pygit2. Nothing is imported here: a child process that reads
a repository (pack_exporter.py) would import the whole model with it.
"""
