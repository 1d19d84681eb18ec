"""The change road: makes the machines what the hive says, pass after pass."""
