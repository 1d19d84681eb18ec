"""The events as JSON lines: `events.jsonl` and rotated files beside it, for programs that tail.

The ledger is authoritative. These files are a copy, written after each commit. The last whole line
marks how far the copy is: after a crash the torn end is cut off, and missing events are written
again from the ledger. Files are synced when they are full and when the daemon stops. After a power
cut the current file is checked from its start: it is cut at the first gap and written again from
there.
"""

from __future__ import annotations

import grp
import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hive_core.model.config.limits import LogSettings

NAME: Final = "events.jsonl"
_OLD: Final = "events-*.jsonl"
_SEQ: Final = re.compile(rb'\{"seq":([0-9]+),"digest":"[0-9a-f]*",(?:"after":([0-9]+),)?')
_TIME: Final = re.compile(rb'"time":([0-9.e+-]+)\}\n\Z')
_GAP: Final = re.compile(rb'\{"gap":\{"from":([0-9]+),"to":([0-9]+)\}\}')
_BEGIN: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass
class EventFiles:
    """Writes the event files. `folder` is created by `open`.

    All methods block: call them in a thread.
    """

    folder: Path
    figures: LogSettings
    group: str = ""
    at: int = 0
    _file: int = -1
    _size: int = 0
    _first: float = 0.0
    _number: int = 0
    # A daemon that stops does not wait for the writing thread.
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def open(self) -> int:
        """Find the end of the copy; return the number of its last event, 0 if it is empty."""
        self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._share(self.folder, 0o750)
        self._begin()
        self.at = self._mend() or self._last_of_old()
        return self.at

    def append(self, rows: Sequence[tuple[int, bytes, str]]) -> None:
        """Append consecutive events (number, digest, JSON). A failed line is cut off again."""
        with self._lock:
            for number, digest, body in rows:
                data = line(number, digest, body)
                if self._size and self._full(data):
                    self.rotate()
                if not self._size:
                    self._number, self._first = number, _time(data)
                self._write(data)
                self.at = number

    def skip(self, to: int) -> None:
        """Record that the events up to this number were pruned before they were copied."""
        text = json.dumps({"gap": {"from": self.at + 1, "to": to}}, separators=(",", ":"))
        self._number = self._number or to
        self._write(text.encode() + b"\n")
        self.at = to

    def rotate(self) -> None:
        """Sync and rename the current file, begin another one, and remove the oldest if needed."""
        if self._size:
            os.fdatasync(self._file)
            (self.folder / NAME).rename(self.folder / f"events-{self._number:012}.jsonl")
            os.close(self._file)
            self._begin()
        self.remove_oldest()

    def remove_oldest(self) -> None:
        """Remove the oldest files while the total size is above the limit."""
        old = sorted(self.folder.glob(_OLD))
        sizes = [file.stat().st_size for file in old]
        total = sum(sizes) + self._size
        for file, size in zip(old, sizes, strict=True):
            if total <= self.figures.total:
                return
            file.unlink()
            total -= size

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                with suppress(OSError):
                    os.fdatasync(self._file)
                os.close(self._file)
                self._file = -1

    def _full(self, data: bytes) -> bool:
        if self._size >= self.figures.rotate:
            return True
        return _time(data) - self._first >= self.figures.age

    def _write(self, data: bytes) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._file, data[done:])
        except OSError:
            if done:
                os.ftruncate(self._file, self._size)  # readers must not see half a line
            raise
        self._size += len(data)

    def _begin(self) -> None:
        place = self.folder / NAME
        self._file = os.open(place, _BEGIN, 0o640)
        self._share(place, 0o640)
        self._size = os.fstat(self._file).st_size
        self._number = 0

    def _share(self, place: Path, mode: int) -> None:
        """Make the path readable for the operators' group, if it exists."""
        place.chmod(mode)
        if self.group:
            with suppress(KeyError, PermissionError):
                os.chown(place, -1, grp.getgrnam(self.group).gr_gid)

    def _mend(self) -> int:
        """Cut off the file at the first gap; return the number of the last event, 0 if none."""
        last, end = 0, 0
        with (self.folder / NAME).open("rb") as file:
            for data in file:
                numbers = _numbers(data)
                if numbers is None or (last and numbers[0] != last + 1):
                    break
                if not last:
                    self._number, self._first = numbers[0], numbers[2]
                last, end = numbers[1], end + len(data)
        if end != self._size:
            os.ftruncate(self._file, end)
            self._size = end
        return last

    def _last_of_old(self) -> int:
        """The last event number of the newest file that has a whole line."""
        for file in sorted(self.folder.glob(_OLD), reverse=True):
            if last := max((event[1] for event in _old_events(file)), default=0):
                return last
        return 0


def line(number: int, digest: bytes, body: str) -> bytes:
    """One event line: its number, its digest, and the text that the digest covers.

    digest = SHA-256(digest of the event before + "{" and everything after the digest of this line)
    """
    head = f'{{"seq":{number},"digest":"{digest.hex()}",'
    return head.encode() + body[1:].encode("utf-8", "surrogatepass") + b"\n"


def _time(data: bytes) -> float:
    match = _TIME.search(data)
    return float(match[1]) if match else 0.0


def _is_text(data: bytes) -> bool:
    """Whether `line` can have written it. After a power cut anything may stand in a line."""
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _old_events(place: Path) -> Iterator[tuple[int, int, float]]:
    with place.open("rb") as file:
        for data in file:
            if (numbers := _numbers(data)) is not None:
                yield numbers


def _numbers(data: bytes) -> tuple[int, int, float] | None:
    """First and last number of a line, and its time; None if it is not a valid line.

    An event that follows notes of agents, which are not copied, covers their numbers.
    """
    if not data.endswith(b"}\n") or b"\0" in data or not _is_text(data):
        return None
    if match := _SEQ.match(data):
        return int(match[2] or int(match[1]) - 1) + 1, int(match[1]), _time(data)
    if match := _GAP.match(data):
        return int(match[1]), int(match[2]), 0.0
    return None
