"""hive-egress: the service that connects agents to the internet, as far as hived allows it.

Agents reach it by a socket of their own, and speak HTTP CONNECT. It resolves names itself and
connects to addresses that it has checked. It sees no keys.
"""
