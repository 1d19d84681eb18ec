"""What the services beside hived share: the sockets that it hands to them, and their calls to it.

hive-model and hive-egress serve agents on sockets that hived makes. Both ask it about each request.
"""
