"""In-memory twins of the four ports, for tests of this project and of programs that build on it.

They keep the rules that the real ones keep (what privd would refuse is refused), so a plan that
works here fails there only for reasons that a machine alone can have.
"""

from hive_core.testing.clock import TIME, ManualClock
from hive_core.testing.jobs import MemoryJobs
from hive_core.testing.journal import MemoryJournal
from hive_core.testing.machines import MemoryMachines

__all__ = ["TIME", "ManualClock", "MemoryJobs", "MemoryJournal", "MemoryMachines"]
