"""The files of a workspace: listed, and searched for a regular expression, within bounds.

No link is followed. Folders are visited level by level, so that a bound cuts the deepest entries.
"""

from __future__ import annotations

import os
import re
import signal
import stat
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from hive_core.agent import workspace
from hive_core.errors import HiveError, InvalidArgument, TimedOut

ENTRIES_MOST: Final = 1000
MATCHES_MOST: Final = 200
LINE_MOST: Final = 300  # characters of a line that are shown
SEARCHED_MOST: Final = 4 << 20  # bytes of a file
_IN_FOLDER: Final = 10_000
_BINARY: Final = 8 << 10
# Folders of other programs' data, which are listed and not entered.
_CLOSED: Final = frozenset({".git", workspace.UNDO})


class FileEntry(NamedTuple):
    """One entry below the workspace. `size`: of a plain file, else None."""

    path: str
    is_folder: bool
    size: int | None

    def __str__(self) -> str:
        if self.is_folder:
            return f"{self.path}/"
        return f"{self.path} ({'no plain file' if self.size is None else f'{self.size} bytes'})"


def entries_below(root: Path, path: str) -> Iterator[FileEntry]:
    """The entries of a folder and of all folders below it; or the file itself."""
    if path and (size := workspace.file_size(root, path)) is not None:
        yield FileEntry(path, is_folder=False, size=size)
        return
    folders = deque([path])
    while folders:
        for entry in _entries_of(root, folders.popleft()):
            yield entry
            if entry.is_folder and entry.path.rpartition("/")[2] not in _CLOSED:
                folders.append(entry.path)


def _entries_of(root: Path, path: str) -> list[FileEntry]:
    with workspace.open_folder(root, path) as folder, os.scandir(folder) as rows:
        names = sorted(row.name for row, _ in zip(rows, range(_IN_FOLDER), strict=False))
        return [_entry(folder, f"{path}/{name}" if path else name) for name in names]


def _entry(folder: int, path: str) -> FileEntry:
    try:
        status = os.stat(path.rpartition("/")[2], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # deleted meanwhile
        return FileEntry(path, is_folder=False, size=None)
    is_file = stat.S_ISREG(status.st_mode)
    return FileEntry(path, stat.S_ISDIR(status.st_mode), status.st_size if is_file else None)


def listing(root: Path, path: str) -> tuple[str, bool]:
    """The entries as lines, and whether there are more."""
    return _take_lines(map(str, entries_below(root, path)), ENTRIES_MOST)


def search(root: Path, path: str, pattern: str, seconds: float) -> tuple[str, bool]:
    """The lines that match, as `path:number: line`, and whether there are more.

    A child process searches, which is killed after `seconds`: a regular expression can take
    forever, and Python cannot interrupt it.
    """
    try:
        expression = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidArgument(
            f"{pattern[:64]!r} is not a regular expression: {error}", field="pattern"
        ) from None
    return _in_child(lambda: _take_lines(_matches(root, path, expression), MATCHES_MOST), seconds)


def _matches(root: Path, path: str, expression: re.Pattern[str]) -> Iterator[str]:
    for entry in entries_below(root, path):
        if entry.size is None or entry.size > SEARCHED_MOST:
            continue
        try:
            data = workspace.read_whole(root, entry.path, SEARCHED_MOST)
        except HiveError:  # deleted or replaced meanwhile, or not readable
            continue
        if b"\0" in data[:_BINARY]:
            continue
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if expression.search(line):
                yield f"{entry.path}:{number}: {line[:LINE_MOST]}"


def _take_lines(lines: Iterator[str], most: int) -> tuple[str, bool]:
    """The first lines, at most 50 KiB of them."""
    taken, left = list[str](), workspace.MOST
    for line in lines:
        # Names of files may have any bytes, and a newline would look like another entry.
        text = os.fsencode(line).decode(errors="replace").replace("\n", "?")
        left -= len(text.encode()) + 1
        if len(taken) == most or left < 0:
            return "".join(f"{one}\n" for one in taken), True
        taken.append(text)
    return "".join(f"{one}\n" for one in taken), False


def _in_child(work: Callable[[], tuple[str, bool]], seconds: float) -> tuple[str, bool]:
    """The result of `work` in a child process; its first byte says whether there is more."""
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        _work_and_exit(work, target, seconds)
    os.close(target)
    with open(source, "rb") as file:  # noqa: PTH123 - a descriptor
        data = file.read(workspace.MOST + 2)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == -signal.SIGALRM:
        raise TimedOut(f"cannot search: it did not end in {seconds:g} s; search a smaller folder")
    kind, text = data[:1], data[1:].decode()
    if kind not in (b"0", b"1"):
        raise InvalidArgument(text or "cannot search: the search ended early", field="path")
    return text, kind == b"1"


def _work_and_exit(work: Callable[[], tuple[str, bool]], target: int, seconds: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        text, more = work()
        answer = f"{int(more)}{text}"
    except (HiveError, OSError, RecursionError) as error:
        answer = f"e{error}"
    with open(target, "wb", closefd=False) as file:
        file.write(answer.encode())
    os._exit(0)
