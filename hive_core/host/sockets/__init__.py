"""Listening sockets, connections, and webhooks."""
