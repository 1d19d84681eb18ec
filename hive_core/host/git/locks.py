"""Lock files in git's format. A lock of the daemon names its process, so a stale one is recognised.

git's locks are `NAME.lock`, created with O_EXCL; git gives their content no meaning
(https://git-scm.com/docs/api-lockfile). The daemon writes into its locks which process made them.
The locks of other gits are reported and never removed.

A lock of the daemon is a hard link to a file that was made durable at the start. After a power cut
it exists with its content, or not at all.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.errors import Busy
from hive_core.host.git.faults import guard_writes
from hive_core.host.storage.disk import sync_folder

_MARK: Final = "hived"
_NAME: Final = "hive-lock"
_MODE: Final = 0o600
_SLACK: Final = 60.0
_STARTED: Final = 19  # Index of starttime in /proc/PID/stat after the name: proc(5)


def write_owner_file(folder: Path) -> Path:
    """Write the file that names this process. Locks are hard links to it."""
    # The token tells this process from one before a reboot that had the same number and start time.
    # The boot id would do the same, but the unit hides it (ProcSubset=pid).
    name = f"{_MARK} {os.getpid()} {_process_start(os.getpid())} {uuid4().hex}\n"
    with guard_writes():
        replace_file(folder / _NAME, name.encode(), folder / f"{_NAME}.new", durable=True)
    return folder / _NAME


def is_stale(lock: Path, folder: Path) -> bool:
    """Whether a dead daemon made this lock in the git directory `folder`.

    Any lock from before the host's last boot is stale too: a power cut leaves locks of other gits.
    """
    if _is_older_than_boot(lock):
        return True
    try:
        said = lock.read_text(encoding="utf-8")
        mark, pid, started, _ = said.split()
    except (OSError, ValueError):
        return False
    if mark != _MARK or not pid.isdecimal():
        return False
    ours = int(pid) == os.getpid() and said != _read(folder / _NAME)
    return ours or _process_start(int(pid)) != started


def _is_older_than_boot(lock: Path) -> bool:
    try:
        made = lock.stat().st_mtime
    except OSError:
        return False
    return made < time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - _SLACK


def _process_start(pid: int) -> str:
    """The start time of a process, in ticks; empty if it does not exist."""
    # The name may hold spaces and brackets; the other fields begin after the last bracket.
    rest = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return rest[_STARTED] if rest else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class RepositoryLock:
    """The lock of one file of the repository in `folder`. Busy while another git holds it."""

    def __init__(self, target: Path, folder: Path) -> None:
        self.path = target.with_name(target.name + ".lock")
        self._folder = folder
        self._lock = str(self.path)
        self._owner = str(folder / _NAME)
        self.held = False

    def acquire(self) -> None:
        with guard_writes():
            made = self._make() or (self.remove_stale() and self._make())
        if not made:
            raise Busy(f"{self.path} is held by another git")
        self.held = True

    def release(self) -> None:
        if self.held:
            with guard_writes():
                self._remove()
            self.held = False

    def remove_stale(self) -> bool:
        """Remove the lock if a dead daemon made it; return whether it did."""
        dead = is_stale(self.path, self._folder)
        if dead:
            with guard_writes():
                self._remove()
        return dead

    def _remove(self) -> None:
        try:
            os.unlink(self._lock)
        except FileNotFoundError:
            """Another git has removed it as stale."""

    def _make(self) -> bool:
        try:
            return _link(self._owner, self._lock)
        except FileNotFoundError:  # the folder of refs, or the owner file, was removed by hand
            make_durable_folder(self.path.parent)
            write_owner_file(self._folder)
        return _link(self._owner, self._lock)


def _link(source: str, target: str) -> bool:
    """Give a file a second name; False if the name is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def replace_file(
    target: Path | str, data: bytes, spare: Path | str, *, durable: bool = False
) -> None:
    """Replace `target` by `data` in one step, with `spare` as the temporary file."""
    handle = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    with open(handle, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(handle)
    os.rename(spare, target)
    if durable:
        sync_folder(os.path.dirname(target))


def make_durable_folder(folder: Path) -> Path:
    """Create a directory and its parents, and make their names durable."""
    if not folder.is_dir():
        make_durable_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
    return folder
