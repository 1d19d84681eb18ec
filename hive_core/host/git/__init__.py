"""The meta repository, and all of the daemon's access to git.

Only modules in this package may import pygit2.
"""

from __future__ import annotations

from hive_core.host.git.faults import Damage, DamagedRepo, HeadMoved
from hive_core.host.git.recovery import ManualCommit, Recovery, RecoveryKind
from hive_core.host.git.repo import MetaRepo

__all__ = [
    "Damage",
    "DamagedRepo",
    "HeadMoved",
    "ManualCommit",
    "MetaRepo",
    "Recovery",
    "RecoveryKind",
]
