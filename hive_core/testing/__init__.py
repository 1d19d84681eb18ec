"""In-memory counterparts of the four ports, for tests of hive and of programs that use it.

They refuse what the real ones refuse (for example privd), so a plan that works here can fail on a
host only for reasons of a real machine.
"""

from hive_core.testing.clock import TIME, ManualClock
from hive_core.testing.figures import MemoryFigures
from hive_core.testing.jobs import MemoryJobs
from hive_core.testing.journal import MemoryJournal
from hive_core.testing.machines import MemoryMachines
from hive_core.testing.subagents import MemorySubAgentSockets

__all__ = [
    "TIME", "ManualClock", "MemoryFigures", "MemoryJobs", "MemoryJournal", "MemoryMachines",
    "MemorySubAgentSockets",
]  # fmt: skip
