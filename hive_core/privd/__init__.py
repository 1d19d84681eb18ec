"""The root helper: applies a closed list of typed actions, and nothing else.

It uses only the standard library and is small enough to be read whole; a test limits its size, with
all hive modules that it imports, to 800 lines. Flags and properties that are the same for every
unit are in lists beside the units. It keeps no state, never follows a symlink inside agent storage,
and takes neither paths nor programs of the host from hived.
"""
