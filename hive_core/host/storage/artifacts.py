"""The contents of artifacts: files named by their SHA-256, each written whole or not at all.

What is being uploaded is gone with the daemon. A file is on the disk, name and all, before the
ledger says that it is there; what the ledger never said is removed at the next start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from uuid import uuid4

from hive_core.errors import Conflict, Internal, LimitReached, NotFound
from hive_core.host.storage.blob_store import BlobStore, BlockDigests, no_step
from hive_core.model.work.artifact import Content, UploadLimits

log = logging.getLogger(__name__)
T = TypeVar("T")
IDLE: Final = 600.0
SOON: Final = 60.0
UPLOADS_MOST: Final = 256
LANES: Final = 3  # threads at once: journals and copies have the others


class DamagedContent(Internal):
    """The bytes are not what was stored."""


class RunBesideLoop(Protocol):
    """Runs work beside the loop that takes as long as there are bytes."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


async def run_in_thread(work: Callable[[], T], /) -> T:
    return await asyncio.to_thread(work)


@dataclass(eq=False)
class ArtifactUpload:
    """What somebody has sent so far. `before`: without the last part, which may come again.

    `coming` bytes are being written. `ready` is what is on the disk but for its name, `stored` what
    has that too. One that is `small` came with the call that stores it.
    """

    party: str
    path: Path
    at: float
    small: bool = False
    sum: BlockDigests = field(default_factory=BlockDigests)
    before: BlockDigests = field(default_factory=BlockDigests)
    coming: int = 0
    ready: Content | None = None
    stored: Content | None = None
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size(self) -> int:
        return 0 if self.stored is not None else self.sum.size + self.coming


@dataclass
class ArtifactContents:
    """`alarm` is told what is damaged; `clock` has seconds that never jump.

    What is known of an upload changes on the loop alone. Its bytes are hashed, written and synced
    beside it, for one upload one after the other, also when nobody waits any more: what a file
    holds must be what was hashed.
    """

    folder: Path
    alarm: Callable[[str], None] = field(default=lambda _: None)
    step: Callable[[str], None] = no_step
    clock: Callable[[], float] = time.monotonic
    beside: RunBesideLoop = run_in_thread
    _uploads: dict[str, ArtifactUpload] = field(default_factory=dict)
    _works: set[asyncio.Task[Any]] = field(default_factory=set)
    _lanes: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LANES))

    def __post_init__(self) -> None:
        self.blobs = BlobStore(self.folder, self.step)

    # Coming in.

    def begin(self, party: str, most: int) -> str:
        """Begin an upload in parts; its id."""
        self._drop_idle()
        open_ = [
            upload
            for upload in self._uploads.values()
            if upload.stored is None and not upload.small
        ]
        mine = sum(upload.party == party for upload in open_)
        if mine >= most or len(open_) >= UPLOADS_MOST:
            raise LimitReached(f"cannot begin an upload: {mine} of yours are open", retry_after=60)
        id_ = uuid4().hex
        upload = ArtifactUpload(party, self.blobs.new(id_), self.clock())
        self.blobs.create(upload.path)
        self._uploads[id_] = upload
        return id_

    async def append(
        self, party: str, id_: str, offset: int, data: bytes, room: UploadLimits
    ) -> int:
        """Take the next part, or the last one once more; how many bytes there are."""

        async def work(upload: ArtifactUpload) -> int:
            self._upload(party, id_)  # it may have gone while this waited
            if upload.ready is not None and not upload.path.exists():
                # It has its name, though its folder could not be synced: it can be stored again,
                # and what would be more of it is another content.
                self._forget(id_)
                self._upload(party, id_)
            before = _before(upload, offset)
            self._check(party, before.size - upload.sum.size + len(data), room)
            upload.sum = upload.before = before
            upload.ready, upload.coming, upload.at = None, len(data), self.clock()
            try:
                upload.sum = await self.beside(lambda: self.blobs.write(upload.path, before, data))
            finally:
                upload.coming = 0
            return upload.sum.size

        return await self._alone(self._upload(party, id_), work)

    async def settle(self, party: str, id_: str) -> str:
        """All of an upload is on the disk, but under no name yet; its id."""

        async def work(upload: ArtifactUpload) -> str:
            self._upload(party, id_)
            if upload.stored is None and upload.ready is None:
                whole = upload.sum
                upload.ready = await self.beside(lambda: self.blobs.sync(upload.path, whole))
                upload.at = self.clock()
            return id_

        return await self._alone(self._upload(party, id_), work)

    async def keep(self, party: str, data: bytes, room: UploadLimits) -> str:
        """Something small, in one go: the id of an upload that is settled."""
        self._drop_idle()
        id_ = uuid4().hex
        path = self.blobs.new(id_)

        def write_first() -> tuple[BlockDigests, Content]:
            self.blobs.create(path)
            whole = self.blobs.write(path, BlockDigests(), data)
            return whole, self.blobs.sync(path, whole)

        async def work(upload: ArtifactUpload) -> str:
            self._check(party, len(data), room)
            self._uploads[id_], upload.coming = upload, len(data)
            try:
                upload.sum, upload.ready = await self.beside(write_first)
                self._upload(party, id_)  # it may have gone before there was a file
            except BaseException:
                self._uploads.pop(id_, None)
                self.blobs.drop(path)
                raise
            upload.coming, upload.at = 0, self.clock()
            return id_

        return await self._alone(ArtifactUpload(party, path, self.clock(), small=True), work)

    def place(self, party: str, id_: str) -> Content | None:
        """Give a settled upload its name: it has it when this returns. None: settle it first."""
        upload = self._upload(party, id_)
        if upload.stored is not None and not self.blobs.path(upload.stored.digest).exists():
            self._forget(id_)
            upload = self._upload(party, id_)
        if upload.stored is None and upload.ready is not None and not upload.alone.locked():
            self.blobs.publish(upload.path, upload.ready)
            upload.stored = upload.ready
        return upload.stored

    def size(self, party: str, id_: str) -> int:
        return self._upload(party, id_).sum.size

    def pending_bytes(self, party: str | None = None) -> int:
        """Bytes of uploads that were not stored yet, of one party or of all."""
        return sum(
            upload.size for upload in self._uploads.values() if party in (None, upload.party)
        )

    def cancel(self, party: str) -> None:
        """Delete the uploads of a destroyed agent."""
        for id_ in [
            upload_id for upload_id, upload in self._uploads.items() if upload.party == party
        ]:
            self._forget(id_)

    def _upload(self, party: str, id_: str) -> ArtifactUpload:
        upload = self._uploads.get(id_)
        if upload is None or upload.party != party:
            raise NotFound(f"no upload {id_[:64]}: begin another one")
        return upload

    def _check(self, party: str, size: int, room: UploadLimits) -> None:
        """Asked when these bytes are counted from then on: many calls may have waited."""
        if self.pending_bytes(party) + size > room.party or self.pending_bytes() + size > room.all:
            raise LimitReached("cannot take it: too much is being sent at once", retry_after=60)

    async def _alone(
        self, upload: ArtifactUpload, work: Callable[[ArtifactUpload], Awaitable[T]]
    ) -> T:
        """With nobody else at this upload, and to its end once it is begun.

        Who waits for its turn holds bytes in memory, and so goes when its connection does.
        """
        await upload.alone.acquire()
        try:
            await self._lanes.acquire()
        except BaseException:
            upload.alone.release()
            raise
        task = asyncio.ensure_future(self._run(upload, work))
        self._works.add(task)
        task.add_done_callback(self._consume_result)
        return await asyncio.shield(task)

    def _consume_result(self, task: asyncio.Task[Any]) -> None:
        """Read the error, so that asyncio does not log it: the waiting caller gets it, if any."""
        self._works.discard(task)
        if not task.cancelled():
            task.exception()

    async def _run(
        self, upload: ArtifactUpload, work: Callable[[ArtifactUpload], Awaitable[T]]
    ) -> T:
        try:
            return await work(upload)
        finally:
            self._lanes.release()
            upload.alone.release()

    def _drop_idle(self) -> None:
        """What came with one call is needed for a moment; what is stored is safe."""
        now = self.clock()
        for id_, upload in list(self._uploads.items()):
            if upload.at < now - (SOON if upload.small else IDLE) and not upload.alone.locked():
                self._forget(id_)

    def _forget(self, id_: str) -> None:
        self.blobs.drop(self._uploads.pop(id_).path)

    # Going out and away.

    async def read(self, content: Content, at: int) -> bytes | str:
        """From this byte to the end of its block; a text says why it is not what was stored."""
        async with self._lanes:
            return await self.beside(lambda: self.blobs.read(content, at))

    def report_damage(self, digest: str, why: str) -> DamagedContent:
        """Raise an alarm for the operator; the error for the caller."""
        text = f"the content {digest} of an artifact is damaged: {why}"
        log.error("%s", text)
        self.alarm(text)
        return DamagedContent(text)

    def remove(self, digest: str) -> None:
        self.blobs.remove(digest)

    def remaining_digests(self) -> Iterator[str]:
        """Delete partial files of an earlier daemon; then every digest that is stored."""
        for partial in self.blobs.partial_files():
            if partial.name not in self._uploads:
                partial.unlink(missing_ok=True)
        yield from self.blobs.digests()


def _before(upload: ArtifactUpload, offset: int) -> BlockDigests:
    """What comes before the next part; the last one may never have been answered."""
    for digests in (upload.sum, upload.before):
        if offset == digests.size and upload.stored is None:
            return digests
    raise Conflict(f"cannot append at {offset}: the upload has {upload.sum.size} bytes")
