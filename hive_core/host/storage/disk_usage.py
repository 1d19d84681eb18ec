"""How full the agents' file system is, and whether it can enforce limits for each agent."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from hive_core.plan.actions import Mount
from hive_core.plan.disk_usage import DiskUse

MOUNTS: Final = Path("/proc/self/mounts")
QUOTA: Final = frozenset({"prjquota", "pquota"})  # mount options of ext4 and XFS


def disk_usage(folder: Path) -> DiskUse:
    """Bytes and inodes in use on the file system."""
    stats = os.statvfs(folder)
    return DiskUse((stats.f_blocks - stats.f_bfree) * stats.f_frsize, stats.f_files - stats.f_ffree)


def has_quota(folder: Path, text: str | None = None) -> bool:
    """Whether the folder is on a file system with project quotas enabled."""
    lines = (os.fsdecode(MOUNTS.read_bytes()) if text is None else text).rstrip("\n").split("\n")
    fields = [line.split(" ") for line in lines]
    around = [field for field in fields if folder.is_relative_to(field[1])]
    # Of several mounts on the same path the last one counts, which `max` alone would not return.
    _, _, _, options, *_ = max(reversed(around), key=lambda field: len(field[1]))
    return not QUOTA.isdisjoint(options.split(","))


def with_limits(action: Mount, *, quota: bool) -> Mount:
    """The action with limits for the file system to enforce (0 for none), if it has quotas."""
    disk, inodes = (action.disk or 0, action.inodes or 0) if quota else (None, None)
    return replace(action, disk=disk, inodes=inodes)
