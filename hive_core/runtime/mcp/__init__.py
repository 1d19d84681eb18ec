"""The tools of an agent over the Model Context Protocol, for CLIs that run in its container."""
