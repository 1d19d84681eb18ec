"""The contents of artifacts: files named by their SHA-256, each written completely or not at all.

Unfinished uploads are lost when the daemon ends. A file and its name are durable before the ledger
records them; files that the ledger does not know are removed at the next start.
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
LANES: Final = 3  # threads at once; the others stay free for journals and copies


class DamagedContent(Internal):
    """The stored bytes are not those that were uploaded."""


class RunBesideLoop(Protocol):
    """Runs blocking work in another thread."""

    async def __call__(self, work: Callable[[], T], /) -> T: ...


async def run_in_thread(work: Callable[[], T], /) -> T:
    return await asyncio.to_thread(work)


@dataclass(eq=False)
class ArtifactUpload:
    """The state of an upload.

    `before` is the digest without the last part, which may be sent again.

    `coming` bytes are being written. `ready` is complete on the disk without its final name;
    `stored` has its name. A `small` upload came within the call that stores it.
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
    """Uploads, stores and reads the contents of artifacts.

    `alarm` is called with each damage; `clock` returns monotonic seconds. The state of an upload
    changes in the event loop only. Its bytes are hashed, written and synced in a thread, one part
    after the other, even if the caller has gone: the file must hold exactly the hashed bytes.
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

    # Upload

    def begin(self, party: str, most: int) -> str:
        """Begin an upload in parts; return its id."""
        self._drop_idle()
        open_ = [
            upload
            for upload in self._uploads.values()
            if upload.stored is None and not upload.small
        ]
        mine = sum(upload.party == party for upload in open_)
        if mine >= most or len(open_) >= UPLOADS_MOST:
            raise LimitReached(
                f"cannot begin an upload: you have {mine} open uploads", retry_after=60
            )
        id_ = uuid4().hex
        upload = ArtifactUpload(party, self.blobs.new(id_), self.clock())
        self.blobs.create(upload.path)
        self._uploads[id_] = upload
        return id_

    async def append(
        self, party: str, id_: str, offset: int, data: bytes, room: UploadLimits
    ) -> int:
        """Append the next part, or the last one again; return the size so far."""

        async def work(upload: ArtifactUpload) -> int:
            self._upload(party, id_)  # the upload may have been dropped during the wait
            if upload.ready is not None and not upload.path.exists():
                # The file has its final name, but its folder could not be synced. It can be stored
                # again; with a further part it would be another content.
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
        """Sync the whole upload to the disk without a final name yet; return its id."""

        async def work(upload: ArtifactUpload) -> str:
            self._upload(party, id_)
            if upload.stored is None and upload.ready is None:
                whole = upload.sum
                upload.ready = await self.beside(lambda: self.blobs.sync(upload.path, whole))
                upload.at = self.clock()
            return id_

        return await self._alone(self._upload(party, id_), work)

    async def keep(self, party: str, data: bytes, room: UploadLimits) -> str:
        """Upload small data in one call; return the id of the synced upload."""
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
                self._upload(party, id_)  # the upload may have been dropped before its file existed
            except BaseException:
                self._uploads.pop(id_, None)
                self.blobs.drop(path)
                raise
            upload.coming, upload.at = 0, self.clock()
            return id_

        return await self._alone(ArtifactUpload(party, path, self.clock(), small=True), work)

    def place(self, party: str, id_: str) -> Content | None:
        """Give a synced upload its final name, durably.

        None if it is not synced: call `settle` first.
        """
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
        """Bytes of uploads that are not stored yet, of one party or of all."""
        return sum(
            upload.size for upload in self._uploads.values() if party in (None, upload.party)
        )

    def cancel(self, party: str) -> None:
        """Delete the uploads of a party (a destroyed agent)."""
        for id_ in [
            upload_id for upload_id, upload in self._uploads.items() if upload.party == party
        ]:
            self._forget(id_)

    def _upload(self, party: str, id_: str) -> ArtifactUpload:
        upload = self._uploads.get(id_)
        if upload is None or upload.party != party:
            raise NotFound(f"no upload {id_[:64]}: begin a new one")
        return upload

    def _check(self, party: str, size: int, room: UploadLimits) -> None:
        """Raise LimitReached if these bytes do not fit. Called when they begin to count."""
        if self.pending_bytes(party) + size > room.party or self.pending_bytes() + size > room.all:
            raise LimitReached(
                "cannot accept the data: too many bytes are being uploaded", retry_after=60
            )

    async def _alone(
        self, upload: ArtifactUpload, work: Callable[[ArtifactUpload], Awaitable[T]]
    ) -> T:
        """Run `work` with exclusive use of this upload. Once begun it runs to its end.

        A caller that waits for its turn holds bytes in memory, so the wait ends with its
        connection.
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
        """Read the error so that asyncio does not log it. A waiting caller gets it."""
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
        """Drop idle uploads: small ones soon. Stored contents are not affected."""
        now = self.clock()
        for id_, upload in list(self._uploads.items()):
            if upload.at < now - (SOON if upload.small else IDLE) and not upload.alone.locked():
                self._forget(id_)

    def _forget(self, id_: str) -> None:
        self.blobs.drop(self._uploads.pop(id_).path)

    # Read and remove

    async def read(self, content: Content, at: int) -> bytes | str:
        """The bytes from `at` to the end of their block; if damaged, a text with the reason."""
        async with self._lanes:
            return await self.beside(lambda: self.blobs.read(content, at))

    def report_damage(self, digest: str, why: str) -> DamagedContent:
        """Raise an alarm for the operator; return the error for the caller."""
        text = f"the content {digest} of an artifact is damaged: {why}"
        log.error("%s", text)
        self.alarm(text)
        return DamagedContent(text)

    def remove(self, digest: str) -> None:
        self.blobs.remove(digest)

    def remaining_digests(self) -> Iterator[str]:
        """Delete partial files of an earlier daemon; yield every stored digest."""
        for partial in self.blobs.partial_files():
            if partial.name not in self._uploads:
                partial.unlink(missing_ok=True)
        yield from self.blobs.digests()


def _before(upload: ArtifactUpload, offset: int) -> BlockDigests:
    """The digest of the data before the next part. The last part may come again."""
    for digests in (upload.sum, upload.before):
        if offset == digests.size and upload.stored is None:
            return digests
    raise Conflict(f"cannot append at {offset}: the upload has {upload.sum.size} bytes")
