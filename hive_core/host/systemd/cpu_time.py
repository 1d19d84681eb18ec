"""Processor time of control groups, as counted by the kernel.

Each group of the unified hierarchy has `cpu.stat`, with or without controllers. So it exists on
hosts with the old hierarchies too, where systemd counts only units that it was told to:
https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
"""

from __future__ import annotations

import os
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

from hive_core.model.agents.machine import Cpu, Machine

GROUPS: Final = Path("/sys/fs/cgroup")
BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_USED: Final = b"usage_usec"
_MOST: Final = 4096


def group_of(slice_: str, unit: str) -> str:
    """`/hive.slice/hive-a.slice/UNIT`: systemd nests slices by the dashes in their names."""
    names = accumulate(slice_.removesuffix(".slice").split("-"), "{}-{}".format)
    return "".join(f"/{name}.slice" for name in names) + f"/{unit}"


def read(group: str, groups: Path = GROUPS) -> Cpu | None:
    """CPU time of a group since it was created; None if it is gone or not counted."""
    for top in (groups / "unified", groups) if group.strip("/") else ():  # never the root group
        try:
            folder = os.open(f"{top}{group}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            return Cpu(name_of(str(os.fstat(folder).st_ino)), _usage_nsec(folder))
        except (OSError, ValueError):
            return None  # it is being removed
        finally:
            os.close(folder)
    return None


def name_of(inode: str, boot: Path = BOOT) -> str:
    """A name of the group that is unique across boots: each boot numbers inodes from 1 on.

    All groups read here are of this boot: records of exits are in `/run`.
    """
    return f"{_read_once(boot)}/{inode}"


@cache
def _read_once(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        # hidden by a drop-in (ProcSubset=): counting with a risk is better than not counting
        return ""


def _usage_nsec(folder: int) -> int:
    """Read below the open folder, so that inode and value are of the same group."""
    file = os.open("cpu.stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        lines = os.read(file, _MOST).splitlines()
    finally:
        os.close(file)
    figures = dict(line.split(b" ", 1) for line in lines)
    if _USED not in figures:
        raise ValueError("no usage_usec in cpu.stat")
    return int(figures[_USED])


def machine_cpu(machine: Machine) -> Cpu | None:
    """The CPU time of a running machine."""
    return read(group_of(machine.slice, machine.unit)) if machine.slice else None
