"""Lock files in git's own way, with our name in them, so that a dead one of ours is known.

git's locks are `NAME.lock`, made with O_EXCL; what stands in them is nobody's business but the
owner's (https://git-scm.com/docs/api-lockfile). Ours say which process made them. A lock that
somebody else left behind is reported and never removed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hive_core.errors import Busy

_MARK: Final = "hived"
_MODE: Final = 0o664
_STARTED: Final = 19  # field of /proc/PID/stat behind the name: proc(5), starttime


def _process(pid: int) -> str | None:
    """What no other process of this machine ever has in common with it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    # The name may hold spaces and brackets; the rest begins behind the last bracket.
    return f"{_MARK} {pid} {stat.rpartition(')')[2].split()[_STARTED]} {boot}"


def left_behind(lock: Path) -> bool:
    """Whether a hived that is no more made this lock."""
    try:
        text = lock.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return False
    mark, _, rest = text.partition(" ")
    pid = rest.split(" ")[0]
    return mark == _MARK and pid.isdigit() and _process(int(pid)) != text


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
            file.write(f"{_process(os.getpid())}\n")
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
