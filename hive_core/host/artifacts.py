"""The contents of artifacts: files named by their SHA-256, each written whole or not at all.

`artifacts/ab/cd/<digest>`, for the daemon's eyes only. What is being uploaded lies in `.new` until
it is complete, and is gone with the daemon. A file is on the disk, name and all, before the ledger
says that it is there; what the ledger never said is removed at the next start.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.errors import Conflict, Internal, LimitReached, NotFound
from hive_core.host.disk import kept, told
from hive_core.model.artifact import BLOCK, Content, is_digest

log = logging.getLogger(__name__)
NEW: Final = ".new"
IDLE: Final = 600.0
SYNCED: Final = 4 << 20
UPLOADS_MOST: Final = 256
EMPTY: Final = sha256().digest()
_WRITE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class DamagedContent(Internal):
    """The bytes are not what was stored."""


class Sum:
    """The digest of what comes, as a whole and in blocks."""

    def __init__(self) -> None:
        self.size = 0
        self._whole, self._block, self._blocks = sha256(), sha256(), b""

    def copy(self) -> Sum:
        found = Sum()
        found.size, found._blocks = self.size, self._blocks
        found._whole, found._block = self._whole.copy(), self._block.copy()
        return found

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


def nothing(step: str) -> None:
    """Where a test may end the process; here it goes on."""


@dataclass
class Upload:
    """What somebody has sent so far. `before`: without the last part, which may come again."""

    party: str
    path: Path
    at: float
    sum: Sum = field(default_factory=Sum)
    before: Sum = field(default_factory=Sum)
    stored: Content | None = None


@dataclass
class Contents:
    """`alarm` is told what is damaged; `clock` has seconds that never jump."""

    folder: Path
    alarm: Callable[[str], None] = field(default=lambda _: None)
    step: Callable[[str], None] = nothing
    clock: Callable[[], float] = time.monotonic
    _uploads: dict[str, Upload] = field(default_factory=dict)

    # Coming in.

    def begin(self, party: str, most: int) -> str:
        """Somebody will send a content in parts; the id under which it does."""
        self._drop_idle()
        open_ = [each for each in self._uploads.values() if each.stored is None]
        mine = sum(each.party == party for each in open_)
        if mine >= most or len(open_) >= UPLOADS_MOST:
            raise LimitReached(f"cannot begin an upload: {mine} of yours are open", retry_after=60)
        id_ = uuid4().hex
        path = self.folder / NEW / id_
        with told("begin an upload"):
            self._make(path.parent)
            os.close(os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o600))
        self._uploads[id_] = Upload(party, path, self.clock())
        return id_

    def append(self, party: str, id_: str, offset: int, data: bytes) -> int:
        """Take the next part, or the last one once more; how many bytes there are."""
        upload = self._upload(party, id_)
        if offset == upload.before.size and offset != upload.sum.size:
            upload.sum = upload.before.copy()  # it may never have been answered
        if upload.stored is not None or offset != upload.sum.size:
            raise Conflict(f"cannot append at {offset}: the upload has {upload.sum.size} bytes")
        with told("take a part of an upload"):
            self._write(upload.path, offset, data)
        upload.before = upload.sum.copy()
        upload.sum.add(data)
        upload.at = self.clock()
        return upload.sum.size

    def size(self, party: str, id_: str) -> int:
        return self._upload(party, id_).sum.size

    def held(self, party: str | None = None) -> int:
        """Bytes of uploads that were not stored yet, of one party or of all."""
        return sum(each.sum.size for each in self._uploads.values()
                   if each.stored is None and party in (None, each.party))  # fmt: skip

    def take(self, party: str, id_: str) -> Content:
        """An upload is complete: it is on the disk under its digest."""
        upload = self._upload(party, id_)
        if upload.stored is not None and not self.place(upload.stored.digest).exists():
            self._forget(id_)
        upload = self._upload(party, id_)
        if upload.stored is None:
            with told("store an upload"):
                upload.stored = self._place(upload.path, upload.sum.content)
        return upload.stored

    def keep(self, data: bytes) -> Content:
        """Something small, at once."""
        found = Sum()
        found.add(data)
        path = self.folder / NEW / uuid4().hex
        with told("store a content"):
            self._make(path.parent)
            try:
                os.close(os.open(path, _WRITE | os.O_CREAT | os.O_EXCL, 0o600))
                self._write(path, 0, data)
                return self._place(path, found.content)
            finally:
                path.unlink(missing_ok=True)

    def cancel(self, party: str) -> None:
        """Somebody is gone, and what it was sending."""
        for id_ in [each for each, upload in self._uploads.items() if upload.party == party]:
            self._forget(id_)

    def _upload(self, party: str, id_: str) -> Upload:
        found = self._uploads.get(id_)
        if found is None or found.party != party:
            raise NotFound(f"no upload {id_[:64]}: begin another one")
        return found

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

    def _place(self, path: Path, content: Content) -> Content:
        """Give it its name. What is there under that name already is put right by this one."""
        place = self.place(content.digest)
        self._make(place.parent)
        file = os.open(path, _WRITE)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        self.step("synced")
        path.rename(place)
        self.step("renamed")
        kept(place.parent)
        self.step("kept")
        return content

    def _make(self, folder: Path) -> None:
        """A folder with those above it, each on the disk."""
        if folder.is_dir():
            return
        self._make(folder.parent) if folder != self.folder else None
        folder.mkdir(mode=0o700, exist_ok=True)
        kept(folder.parent)

    def _drop_idle(self) -> None:
        first = self.clock() - IDLE
        for id_ in [each for each, upload in self._uploads.items() if upload.at < first]:
            self._forget(id_)

    def _forget(self, id_: str) -> None:
        with suppress(OSError):
            self._uploads.pop(id_).path.unlink(missing_ok=True)

    # Going out.

    def read(self, content: Content, at: int) -> bytes:
        """From this byte to the end of its block. What is not what was stored is not given."""
        number = at // BLOCK
        expected = content.blocks[32 * number : 32 * number + 32]
        try:
            file = os.open(self.place(content.digest), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                data = os.pread(file, BLOCK, number * BLOCK)
                same = os.fstat(file).st_size == content.size
            finally:
                os.close(file)
        except OSError as error:
            raise self._damaged(content, error.strerror or "it cannot be read") from error
        if not same or sha256(data).digest() != (expected or EMPTY):
            raise self._damaged(content, "its bytes are others")
        return data[at - number * BLOCK :]

    def _damaged(self, content: Content, why: str) -> DamagedContent:
        text = f"the content {content.digest} of an artifact is damaged: {why}"
        log.error("%s", text)
        self.alarm(text)
        return DamagedContent(text)

    # Going away.

    def remove(self, digest: str) -> None:
        with told("remove a content"):
            self.place(digest).unlink(missing_ok=True)

    def place(self, digest: str) -> Path:
        if not is_digest(digest):
            raise Internal("that is no digest")
        return self.folder / digest[:2] / digest[2:4] / digest

    def left(self) -> Iterator[str]:
        """Clear what an earlier daemon was in the middle of; then every digest that is there."""
        if not self.folder.is_dir():
            return
        for each in (self.folder / NEW).glob("*"):
            if each.name not in self._uploads:
                each.unlink(missing_ok=True)
        for first in self._listed(self.folder):
            for second in self._listed(first) if first.name != NEW else ():
                yield from (each.name for each in self._listed(second) if is_digest(each.name))

    def _listed(self, folder: Path) -> list[Path]:
        with suppress(OSError):
            return sorted(folder.iterdir())
        return []
