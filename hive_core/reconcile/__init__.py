"""The change path: makes the machines match the hive, pass after pass."""
