"""The log of one conversation: a file of root's that only grows.

A record is on disk before anything is done that it is needed for. One that begins nothing may share
the sync of the next: the process may be killed then, and only a crash of the host loses it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from hive_core.agent.session.records import Record, encode_record, read_records
from hive_core.agent.session.segment import inherited_records
from hive_core.agent.session.state import ConversationState
from hive_core.errors import Busy, Internal, InvalidArgument

NAME: Final = "log"
MAIN: Final = "main"
_SEEN: Final = 500  # ids of messages that a new segment knows
_ROOM: Final = 1 << 16
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


def task_conversation(task: str) -> str:
    """The name of the conversation of one task."""
    name = f"task-{task}"
    if "/" in name or "\0" in name or len(name) > 100:  # noqa: PLR2004
        raise InvalidArgument(f"{task[:64]!r} is not the id of a task", field="task")
    return name


class ConversationLog:
    """The records on disk and the state that they give. One process writes at a time."""

    def __init__(
        self, folder: Path, conversation: str, sync: Callable[[int], None] = os.fdatasync,
        sync_folder: Callable[[int], None] = os.fsync,
    ) -> None:  # fmt: skip
        self.folder = folder / conversation
        self.conversation = conversation
        self._sync_file = sync
        self._sync_place = sync_folder
        self._is_synced = True
        self._has_new_name = False  # of its file, which the folder on disk may not have
        self._unlocked_at: int | None = None  # its size; None: this process writes
        # The names of conversations are ids of tasks: no other user of the container lists them.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._file = self._open_file()
        try:
            self.state = self._read()
        except BaseException:
            os.close(self._file)
            raise

    def append(self, record: Record, *, sync: bool = True) -> Record:
        """Write a record; with `sync` it is on disk when this returns, and so are all before it."""
        record = {**record, "at": round(time.time(), 3)}
        self._write(encode_record(record), sync=sync)
        self.state.add(record)
        return record

    def sync(self) -> None:
        """Have all records on disk."""
        if not self._is_synced:
            self._sync_file(self._file)
            self._is_synced = True
        if self._has_new_name:
            self._sync_folder()
            self._has_new_name = False

    def unlock(self) -> None:
        """Let another process write, until `lock`; this one writes nothing meanwhile."""
        if self._unlocked_at is None:
            self.sync()
            self._unlocked_at = os.fstat(self._file).st_size
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def lock(self) -> bool:
        """Write again; True when another process has written meanwhile, and the state is new."""
        before, self._unlocked_at = self._unlocked_at, None
        if before is None:
            return False
        fcntl.flock(self._file, fcntl.LOCK_EX)
        is_new = os.fstat(self._file).st_size != before
        if is_new:
            self.state = self._read()
        return is_new

    def start_segment(self, records: list[Record]) -> None:
        """Go on in a new file with these records; the old one stays beside it as `log.N`.

        From the rename on this process writes the new one, which the next process reads, even
        where the folder cannot be synced: then no record counts as on disk until it is.
        """
        self.sync()
        spare = self.folder / f"{NAME}.new"
        spare.unlink(missing_ok=True)
        first = self._opening(self.state.turns, sorted(self.state.seen)[-_SEEN:])
        file = os.open(spare, _FLAGS | os.O_EXCL, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            now = round(time.time(), 3)
            rows = [{**record, "at": now} for record in (first, *records)]
            state = ConversationState.of(rows)
            write_whole(file, b"".join(map(encode_record, rows)))
            self._sync_file(file)
            self._keep_old()
            spare.replace(self.folder / NAME)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file, self._has_new_name = file, True
        self.state = state
        self.sync()

    def read_bytes(self) -> bytes:
        """The present segment, as it is on disk."""
        return read_whole(self._file)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> ConversationLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_file(self) -> int:
        file = os.open(self.folder / NAME, _FLAGS, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise Busy(f"another process has the log of {self.conversation} open") from None
        return file

    def _read(self) -> ConversationState:
        contents = read_records(read_whole(self._file))
        if os.fstat(self._file).st_size != contents.size:
            os.ftruncate(self._file, contents.size)
            self._sync_file(self._file)
        state = ConversationState.of(contents.records)
        if not contents.records:
            now = round(time.time(), 3)
            rows = [self._opening(0, []), *inherited_records(self.folder.parent)]
            first = [{**row, "at": now} for row in rows]
            self._write(b"".join(map(encode_record, first)), sync=True)
            self._sync_folder()
            state = ConversationState.of(first)
        elif state.conversation != self.conversation:
            raise Internal(f"the log of {self.conversation} is that of {state.conversation!r}")
        return state

    def _opening(self, turns: int, seen: list[str]) -> Record:
        return {
            "t": "open", "log": os.urandom(8).hex(), "conversation": self.conversation,
            "turns": turns, "seen": seen,
        }  # fmt: skip

    def _write(self, data: bytes, *, sync: bool) -> None:
        size = os.fstat(self._file).st_size
        was_synced, self._is_synced = self._is_synced, False
        try:
            write_whole(self._file, data)
            if sync:
                self.sync()
        except OSError:
            self._is_synced = was_synced
            # A part of it may be there, and nothing may follow a torn record.
            os.ftruncate(self._file, size)
            raise

    def _keep_old(self) -> None:
        """A name of its own for the present file, unless a crash left it one."""
        *old, last = segments(self.folder)
        if not (old and old[-1].samefile(last)):
            os.link(last, self.folder / f"{NAME}.{len(old) + 1}")

    def _sync_folder(self) -> None:
        place = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._sync_place(place)
        finally:
            os.close(place)


def segments(folder: Path) -> list[Path]:
    """The files of a conversation, the oldest first; the last is the one that grows."""
    old = [file for file in folder.glob(f"{NAME}.*") if file.suffix[1:].isdigit()]
    last = folder / NAME
    return [
        *sorted(old, key=lambda file: int(file.suffix[1:])),
        *([last] if last.exists() else []),
    ]


def conversations(folder: Path) -> list[str]:
    """The names of the conversations that have a log."""
    return sorted(file.parent.name for file in folder.glob(f"*/{NAME}"))


def has_log(folder: Path, conversation: str) -> bool:
    """Whether a conversation of this name has begun."""
    return bool(conversation) and (folder / conversation / NAME).exists()


def can_write(folder: Path) -> bool:
    """Whether there is room for records beside the conversations."""
    try:
        with NamedTemporaryFile(dir=folder, prefix=".room-", buffering=0) as file:
            write_whole(file.fileno(), bytes(_ROOM))
    except OSError:
        return False
    return True


def read_whole(file: int) -> bytes:
    size, parts, at = os.fstat(file).st_size, list[bytes](), 0
    while at < size and (part := os.pread(file, 1 << 20, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def write_whole(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
