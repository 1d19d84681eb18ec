"""The root helper: applies the closed list of typed actions, and nothing else.

Standard library only and small enough to be read whole; a test holds its size, with everything
of ours that it imports, under 800 lines. Flags and properties that are the same for every unit
stand in lists beside the units. It keeps no state, never follows a symlink inside agent storage,
and takes neither paths nor programs of the host from hived.
"""
