"""The files of artifacts: `artifacts/ab/cd/<digest>`, each complete or absent.

Files being written are in `.new` until they are complete. The functions block in proportion to the
bytes, so most of them run in a thread; `publish` takes the same time for every size.
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
    """The digests of a byte stream: of the whole and of each block."""

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
    """The default for `step`: do nothing. Tests end the process there."""


@dataclass
class BlobStore:
    """Stores contents by digest. `step` is called by name between the parts of a write."""

    folder: Path
    step: Callable[[str], None] = no_step
    # Serializes: a folder that another thread has just made may not be durable yet.
    _making: threading.Lock = field(default_factory=threading.Lock)

    def path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise Internal("this is not a digest")
        return self.folder / digest[:2] / digest[2:4] / digest

    def new(self, name: str) -> Path:
        """The path of a file whose digest is not known yet."""
        return self.folder / NEW / name

    # Write

    def create(self, path: Path) -> None:
        """Create an empty file."""
        with guard_disk("begin an upload"):
            self._make(path.parent)
            os.close(os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o600))

    def write(self, path: Path, before: BlockDigests, data: bytes) -> BlockDigests:
        """Write a part at the offset of `before`; cut off everything after it."""
        with guard_disk("take a part of an upload"):
            self._write(path, before.size, data)
        digests = before.copy()
        digests.add(data)
        return digests

    def sync(self, path: Path, whole: BlockDigests) -> Content:
        """Sync the file, cut to its known size: a later part may have failed half way."""
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
        """Move the file to its digest and sync the folder. An existing file is replaced.

        The file may have its name already, if an earlier sync of the folder failed.
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
            if at // SYNCED != offset // SYNCED:  # so that little remains for the final sync
                os.fdatasync(file)
        finally:
            os.close(file)
        self.step("written")

    def _make(self, folder: Path) -> None:
        with self._making:
            self._make_folders(folder)

    def _make_folders(self, folder: Path) -> None:
        """Create a folder and its parents, each durable."""
        if folder.is_dir():
            return
        self._make_folders(folder.parent) if folder != self.folder else None
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)

    # Read and remove

    def read(self, content: Content, at: int) -> bytes | str:
        """The bytes from `at` to the end of their block; if damaged, a text with the reason."""
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
            return error.strerror or "cannot read it"
        if not same or sha256(data).digest() != (expected or EMPTY):
            return "its hash differs"
        return data[at - number * BLOCK :]

    def remove(self, digest: str) -> None:
        with guard_disk("remove a content"):
            self.path(digest).unlink(missing_ok=True)

    def drop(self, path: Path) -> None:
        """Delete a file that will not be stored."""
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def partial_files(self) -> list[Path]:
        """Files being written, and leftovers of an earlier daemon."""
        return list((self.folder / NEW).glob("*")) if self.folder.is_dir() else []

    def digests(self) -> Iterator[str]:
        """The digests of all stored files."""
        for first in self._list_folder(self.folder):
            for second in self._list_folder(first) if first.name != NEW else ():
                yield from (file.name for file in self._list_folder(second) if is_digest(file.name))

    def _list_folder(self, folder: Path) -> list[Path]:
        with suppress(OSError):
            return sorted(folder.iterdir())
        return []
