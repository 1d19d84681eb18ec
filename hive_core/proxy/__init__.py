"""hive-model: the service that calls models for agents. It alone holds the keys of providers.

Agents reach it by a socket of their own. It checks and charges each call at hived, and passes
requests and answers on byte for byte.
"""
