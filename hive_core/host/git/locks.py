"""Lock files in git's own way, with our name in them, so that a dead one of ours is known.

git's locks are `NAME.lock`, made with O_EXCL; what stands in them is nobody's business but the
owner's (https://git-scm.com/docs/api-lockfile). Ours say which process made them. A lock that
somebody else left behind is reported and never removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.errors import Busy

_MARK: Final = "hived"
_MODE: Final = 0o664
_STARTED: Final = 19  # field of /proc/PID/stat behind the name: proc(5), starttime


# Tells this process from one before a reboot that had the same number and start. The boot id would
# do as well, but the unit hides it (ProcSubset=pid).
_TOKEN: Final = uuid4().hex


def _started(pid: int) -> str:
    """When a process began, in ticks; empty when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name may hold spaces and brackets; the rest begins behind the last bracket.
    return stat.rpartition(")")[2].split()[_STARTED]


def _name() -> str:
    return f"{_MARK} {os.getpid()} {_started(os.getpid())} {_TOKEN}"


def left_behind(lock: Path) -> bool:
    """Whether a hived that is no more made this lock."""
    try:
        mark, pid, started, token = lock.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return False
    if mark != _MARK or not pid.isdecimal() or token == _TOKEN:
        return False
    return int(pid) == os.getpid() or _started(int(pid)) != started


class Lock:
    """The lock of one file of the repository. Busy when somebody has it."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".lock")
        self.held = False

    def acquire(self) -> None:
        if not (self._make() or (left_behind(self.path) and self._again())):
            raise Busy(f"{self.path} is held by another git")
        self.held = True

    def release(self) -> None:
        if self.held:
            self.path.unlink(missing_ok=True)
            self.held = False

    def _again(self) -> bool:
        self.path.unlink(missing_ok=True)
        return self._make()

    def _make(self) -> bool:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        except FileExistsError:
            return False
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
            file.write(f"{_name()}\n")
        return True


def replace(target: Path, data: bytes, spare: Path, *, durable: bool = False) -> None:
    """Put `data` in place of `target` in one step; `spare` is where it is made ready."""
    handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    spare.rename(target)
    if durable:
        flush(target.parent)


def flush(folder: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
