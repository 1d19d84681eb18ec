"""hive runs a tree of AI agents on one host, each in its own systemd-nspawn container."""

VERSION = "0.1.0"
