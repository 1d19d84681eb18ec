"""Packs that are uploaded in parts, each in a file until it is complete; lost with the daemon."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from hive_core.errors import Busy, Conflict, InvalidArgument, LimitReached
from hive_core.host.git.file_writer import guard_repository
from hive_core.model.config.push import PackChunk, Push

MOST: Final = 8
IDLE: Final = 60.0  # seconds after which an upload can be dropped for another one
DEAD: Final = 600.0


@dataclass
class PushUpload:
    """The received part of one push. The last part may come again, if its answer was lost."""

    push: Push
    path: Path
    at: float
    size: int = 0
    before: int = 0


@dataclass
class PushUploads:
    """Uploads of packs. `most` limits the bytes of one pack.

    A part that does not match its upload changes nothing.
    """

    work: Path
    most: int
    clock: Callable[[], float] = time.monotonic
    _open: dict[str, PushUpload] = field(default_factory=dict)

    def add(self, push: Push, part: PackChunk) -> str:
        """Store a part; return the id of its upload."""
        id_ = part.upload or ""
        upload = self._open.get(id_)
        if part.upload is not None and (upload is None or upload.push != push):
            raise Conflict("this upload was dropped: push again")
        before = upload.size if upload else 0
        if upload and part.offset == upload.before:
            before = upload.before
        if part.offset != before:
            raise InvalidArgument(f"the next part must begin at {before}", field="offset")
        if before + len(part.data) > self.most:
            if upload:
                self.drop(id_)
            raise LimitReached(f"cannot push: the pack is larger than {self.most} bytes")
        if upload is None:
            id_, upload = self._begin(push)
        with guard_repository(upload.path), upload.path.open("r+b") as file:
            file.seek(before)
            file.write(part.data)
            file.truncate()
        upload.before, upload.size, upload.at = before, before + len(part.data), self.clock()
        return id_

    def _begin(self, push: Push) -> tuple[str, PushUpload]:
        self._make_room()
        id_ = uuid4().hex
        with guard_repository(self.work):
            self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
            upload = PushUpload(push, self.work / f"pushed-{id_}", self.clock())
            upload.path.touch(0o600)
        self._open[id_] = upload
        return id_, upload

    def _make_room(self) -> None:
        now = self.clock()
        for id_, upload in list(self._open.items()):
            if upload.at < now - DEAD:
                self.drop(id_)
        idle = [id_ for id_, upload in self._open.items() if upload.at < now - IDLE]
        if len(self._open) >= MOST and not idle:
            raise Busy(f"cannot push: {MOST} other pushes are being uploaded; try again")
        if len(self._open) >= MOST:
            self.drop(idle[0])

    def take(self, id_: str) -> bytes:
        """The whole pack. Its upload is removed."""
        data = self._open[id_].path.read_bytes()
        self.drop(id_)
        return data

    def size(self, id_: str) -> int:
        return self._open[id_].size

    def drop(self, id_: str) -> None:
        self._open.pop(id_).path.unlink(missing_ok=True)
