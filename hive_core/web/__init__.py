"""The dashboard: pages for the operator, served to a browser on this host.

`hive-web` has no network and no authority. hived decides what it may read and do, for the login
whose secret a browser sent.
"""
