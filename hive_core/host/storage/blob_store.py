"""The files of artifacts: `artifacts/ab/cd/<digest>`, each whole or not there.

What is being written lies in `.new` until it is complete. All of this blocks for as long as there
are bytes, so most of it runs beside the loop; `name` costs the same for every size.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from hive_core.errors import Internal
from hive_core.host.storage.disk import guard_disk, sync_folder
from hive_core.model.work.artifact import BLOCK, Content, is_digest

NEW: Final = ".new"
SYNCED: Final = 4 << 20
EMPTY: Final = sha256().digest()
_WRITE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class BlockDigests:
    """The digest of what comes, as a whole and in blocks."""

    def __init__(self) -> None:
        self.size = 0
        self._whole, self._block, self._blocks = sha256(), sha256(), b""

    def copy(self) -> BlockDigests:
        copied = BlockDigests()
        copied.size, copied._blocks = self.size, self._blocks
        copied._whole, copied._block = self._whole.copy(), self._block.copy()
        return copied

    def add(self, data: bytes) -> None:
        self._whole.update(data)
        view = memoryview(data)
        while view:
            room = BLOCK - self.size % BLOCK
            part, view = view[:room], view[room:]
            self._block.update(part)
            self.size += len(part)
            if self.size % BLOCK == 0:
                self._blocks, self._block = self._blocks + self._block.digest(), sha256()

    @property
    def content(self) -> Content:
        rest = self._block.digest() if self.size % BLOCK else b""
        return Content(self._whole.hexdigest(), self.size, self._blocks + rest)


def no_step(step: str) -> None:
    """Where a test may end the process; here it goes on."""


@dataclass
class BlobStore:
    """`step` is told how far a content is."""

    folder: Path
    step: Callable[[str], None] = no_step
    # A folder that another thread has just made may not be on the disk yet.
    _making: threading.Lock = field(default_factory=threading.Lock)

    def path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise Internal("that is no digest")
        return self.folder / digest[:2] / digest[2:4] / digest

    def new(self, name: str) -> Path:
        """Where something is written that has no digest yet."""
        return self.folder / NEW / name

    # Coming in.

    def create(self, path: Path) -> None:
        """An empty file."""
        with guard_disk("begin an upload"):
            self._make(path.parent)
            os.close(os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o600))

    def write(self, path: Path, before: BlockDigests, data: bytes) -> BlockDigests:
        """A part behind what comes before it; what is there behind that goes."""
        with guard_disk("take a part of an upload"):
            self._write(path, before.size, data)
        digests = before.copy()
        digests.add(data)
        return digests

    def sync(self, path: Path, whole: BlockDigests) -> Content:
        """All of it is on the disk, and nothing else: a part may have failed half way."""
        content = whole.content
        with guard_disk("store an upload"):
            file = os.open(path, _WRITE)
            try:
                os.ftruncate(file, whole.size)
                os.fsync(file)
            finally:
                os.close(file)
            self._make(self.path(content.digest).parent)
        self.step("synced")
        return content

    def publish(self, path: Path, content: Content) -> None:
        """Under its digest, on the disk. What is there already is put right by this one.

        It may have its name from the last time, when the folder could not be synced.
        """
        place = self.path(content.digest)
        with guard_disk("store an upload"):
            if path.exists() or not place.exists():
                path.rename(place)
            self.step("renamed")
            sync_folder(place.parent)
        self.step("kept")

    def _write(self, path: Path, offset: int, data: bytes) -> None:
        file = os.open(path, _WRITE)
        try:
            os.ftruncate(file, offset)
            view, at = memoryview(data), offset
            while view:
                written = os.pwrite(file, view, at)
                view, at = view[written:], at + written
            if at // SYNCED != offset // SYNCED:  # so that little is left to do at the end
                os.fdatasync(file)
        finally:
            os.close(file)
        self.step("written")

    def _make(self, folder: Path) -> None:
        with self._making:
            self._make_folders(folder)

    def _make_folders(self, folder: Path) -> None:
        """A folder with those above it, each on the disk."""
        if folder.is_dir():
            return
        self._make_folders(folder.parent) if folder != self.folder else None
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)

    # Going out and away.

    def read(self, content: Content, at: int) -> bytes | str:
        """From this byte to the end of its block; a text says why it is not what was stored."""
        number = at // BLOCK
        expected = content.blocks[32 * number : 32 * number + 32]
        try:
            file = os.open(self.path(content.digest), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                data = os.pread(file, BLOCK, number * BLOCK)
                same = os.fstat(file).st_size == content.size
            finally:
                os.close(file)
        except OSError as error:
            return error.strerror or "it cannot be read"
        if not same or sha256(data).digest() != (expected or EMPTY):
            return "its bytes are others"
        return data[at - number * BLOCK :]

    def remove(self, digest: str) -> None:
        with guard_disk("remove a content"):
            self.path(digest).unlink(missing_ok=True)

    def drop(self, path: Path) -> None:
        """What will not be stored."""
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def partial_files(self) -> list[Path]:
        """What is being written, or was when a daemon ended."""
        return list((self.folder / NEW).glob("*")) if self.folder.is_dir() else []

    def digests(self) -> Iterator[str]:
        """Everything that has a name."""
        for first in self._list_folder(self.folder):
            for second in self._list_folder(first) if first.name != NEW else ():
                yield from (file.name for file in self._list_folder(second) if is_digest(file.name))

    def _list_folder(self, folder: Path) -> list[Path]:
        with suppress(OSError):
            return sorted(folder.iterdir())
        return []
