"""The contents of artifacts: whole or not there, whatever ends the daemon in between (K21)."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from each import for_each

from hive_core.errors import Internal, LimitReached, NotFound, StorageFull
from hive_core.host.storage.artifacts import LANES, ArtifactContents
from hive_core.host.storage.blob_store import BlobStore, BlockDigests
from hive_core.model.work.artifact import BLOCK, Content, UploadLimits

DATA = b"x" * (BLOCK + 5)
DIGEST = sha256(DATA).hexdigest()
ROOM = UploadLimits(1 << 30, 1 << 30)
STEPS = ("written", "synced", "renamed", "kept")


def kill_at(at: str) -> Callable[[str], None]:
    """The process ends at this step."""

    def step(name: str) -> None:
        if name == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def store(contents: ArtifactContents, how: str = "keep", data: bytes = DATA) -> Content:
    """As a call does it: the bytes beside the loop, then the name."""

    async def work() -> Content | None:
        if how == "keep":
            return contents.place("p", await contents.keep("p", data, ROOM))
        id_ = contents.begin("p", 1)
        await contents.append("p", id_, 0, data, ROOM)
        assert contents.place("p", id_) is None
        return contents.place("p", await contents.settle("p", id_))

    content = asyncio.run(work())
    assert content is not None
    return content


def whole(contents: ArtifactContents) -> dict[str, bytes]:
    """Every file that has a name, with what is in it."""
    return {
        digest: contents.blobs.path(digest).read_bytes() for digest in contents.remaining_digests()
    }


@pytest.mark.parametrize("at", STEPS)
@pytest.mark.parametrize("how", ["keep", "upload"])
def test_a_kill_at_any_step_leaves_the_whole_content_or_none(
    tmp_path: Path, at: str, how: str
) -> None:
    child = os.fork()
    if not child:
        store(ArtifactContents(tmp_path / "a", step=kill_at(at)), how)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    again = ArtifactContents(tmp_path / "a")
    remaining = whole(again)
    assert remaining == ({} if at in ("written", "synced") else {DIGEST: DATA})
    assert list((tmp_path / "a/.new").iterdir()) == []
    assert store(again).digest == DIGEST
    assert whole(again) == {DIGEST: DATA}


def test_the_name_of_a_content_is_on_the_disk_when_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file before its name, and every folder that is new."""
    synced: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note(file: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()).removeprefix(str(tmp_path)))
        fsync(file)

    def record_rename(self: Path, target: Path) -> Path:
        synced.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", record_rename)
    store(ArtifactContents(tmp_path / "a"))
    first, second = DIGEST[:2], DIGEST[2:4]
    at = synced.index("rename")
    assert any(synced_path.startswith("/a/.new/") for synced_path in synced[:at])
    assert synced[at + 1] == f"/a/{first}/{second}"
    assert {"", "/a", f"/a/{first}"} <= set(synced[:at])


def test_files_are_private_to_their_owner(tmp_path: Path) -> None:
    contents = ArtifactContents(tmp_path / "a")
    store(contents)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*") if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*") if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


@for_each("digest", ["", "..", "../../../etc/passwd", "A" * 64, "a" * 63, "g" * 64])
def test_nothing_but_a_digest_names_a_file(tmp_path: Path, digest: str) -> None:
    with pytest.raises(Internal):
        BlobStore(tmp_path).path(digest)


def test_a_part_is_judged_by_itself(tmp_path: Path) -> None:
    contents = ArtifactContents(tmp_path / "a")
    data = os.urandom(3 * BLOCK + 7)
    content = store(contents, data=data)
    place = contents.blobs.path(content.digest)
    changed = bytearray(data)
    changed[BLOCK + 1] ^= 1
    place.write_bytes(changed)
    read = contents.blobs.read
    assert read(content, 0) == data[:BLOCK]
    assert read(content, 2 * BLOCK + 5) == data[2 * BLOCK + 5 : 3 * BLOCK]
    assert read(content, BLOCK) == "its hash differs"
    assert read(content, 3 * BLOCK) == data[3 * BLOCK :]


def test_sums_do_not_depend_on_how_the_bytes_come() -> None:
    data = os.urandom(2 * BLOCK + 3)
    sums = []
    for step in (1000, BLOCK, BLOCK + 1, len(data)):
        digests = BlockDigests()
        for at in range(0, len(data), step):
            digests.add(data[at : at + step])
        sums.append(digests.content)
    assert len({(content.digest, content.blocks) for content in sums}) == 1
    assert sums[0].blocks[:32] == sha256(data[:BLOCK]).digest()
    assert len(sums[0].blocks) == 3 * 32


@pytest.fixture(name="tiny")
def _tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for little."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    subprocess.run(words, check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_leaves_nothing_half(tiny: Path) -> None:
    contents = ArtifactContents(tiny / "a")
    store(contents, data=b"small")

    async def work() -> Content | None:
        id_ = contents.begin("p", 4)
        await contents.append("p", id_, 0, b"x" * 600_000, ROOM)
        with pytest.raises(StorageFull):
            await contents.append("p", id_, 600_000, b"x" * 600_000, ROOM)
        with pytest.raises(StorageFull):
            await contents.keep("p", b"y" * 700_000, ROOM)
        assert list(whole(contents)) == [sha256(b"small").hexdigest()]
        return contents.place("p", await contents.settle("p", id_))

    outcome = asyncio.run(work())
    assert outcome is not None
    assert outcome.size == 600_000
    assert contents.blobs.path(outcome.digest).stat().st_size == 600_000


def test_a_part_that_is_given_up_on_is_written_to_its_end_before_the_next(tmp_path: Path) -> None:
    """Else two threads would write one file, and it would not hold what was hashed."""
    began, go, order = threading.Event(), threading.Event(), list[str]()

    def step(name: str) -> None:
        if name == "written" and not order:
            began.set()
            assert go.wait(20)
        order.append(name)

    async def work() -> Content | None:
        id_ = contents.begin("p", 1)
        first = asyncio.create_task(contents.append("p", id_, 0, b"a" * 5, ROOM))
        await asyncio.to_thread(began.wait, 20)
        first.cancel()
        second = asyncio.create_task(contents.append("p", id_, 0, b"b" * 3, ROOM))
        for _ in range(100):
            await asyncio.sleep(0)
        assert (order, second.done(), contents.place("p", id_)) == ([], False, None)
        go.set()
        assert await second == 3
        return contents.place("p", await contents.settle("p", id_))

    contents = ArtifactContents(tmp_path / "a", step=step)
    outcome = asyncio.run(work())
    assert outcome is not None
    assert contents.blobs.path(outcome.digest).read_bytes() == b"bbb"
    assert outcome.digest == sha256(b"bbb").hexdigest()


def test_bytes_are_worked_on_beside_the_loop_and_only_the_name_is_given_on_it(
    tmp_path: Path,
) -> None:
    """The loop goes round a thousand times while a thread is held up at each step."""
    rounds, goes = (
        Counter[str](),
        {step_name: threading.Event() for step_name in ("written", "synced")},
    )

    def step(name: str) -> None:
        here = threading.current_thread() is threading.main_thread()
        assert here == (name in ("renamed", "kept"))
        if name in goes:
            assert goes[name].wait(20)

    async def turn() -> None:
        for step_name, go in goes.items():
            for _ in range(1000):
                await asyncio.sleep(0)
                rounds[step_name] += 1
            go.set()

    async def work() -> Content | None:
        turning = asyncio.create_task(turn())
        id_ = contents.begin("p", 1)
        await contents.append("p", id_, 0, DATA, ROOM)
        place = contents.place("p", await contents.settle("p", id_))
        await turning
        return place

    contents = ArtifactContents(tmp_path / "a", step=step)
    assert asyncio.run(work()) is not None
    assert rounds == {"written": 1000, "synced": 1000}


def test_a_caller_that_is_destroyed_while_it_waits_for_its_turn_leaves_nothing(
    tmp_path: Path,
) -> None:
    """Waiting calls are in memory: an agent has at most one for each connection."""
    began, go = threading.Event(), threading.Event()

    def step(name: str) -> None:
        if name == "written":
            began.set()
            assert go.wait(20)

    async def work() -> None:
        busy = [asyncio.create_task(contents.keep("p", DATA, ROOM)) for _ in range(LANES)]
        await asyncio.to_thread(began.wait, 20)
        gone = [asyncio.create_task(contents.keep("q", DATA, ROOM)) for _ in range(50)]
        for _ in range(10):
            await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        assert contents.pending_bytes("q") == 0
        go.set()
        for task in busy:
            assert contents.place("p", await task) is not None

    contents = ArtifactContents(tmp_path / "a", step=step)
    asyncio.run(work())
    assert contents.blobs.partial_files() == []


def test_a_failure_after_the_caller_hung_up_is_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Else whoever hangs up in time could fill the journal."""
    began, go = threading.Event(), threading.Event()

    def step(name: str) -> None:
        began.set()
        assert go.wait(20)
        raise Internal(name)

    async def work() -> None:
        id_ = contents.begin("p", 1)
        first = asyncio.create_task(contents.append("p", id_, 0, DATA, ROOM))
        await asyncio.to_thread(began.wait, 20)
        late = asyncio.create_task(contents.append("p", id_, 0, DATA, ROOM))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        contents.cancel("p")
        go.set()
        with pytest.raises(NotFound):
            await late

    contents = ArtifactContents(tmp_path / "a", step=step)
    asyncio.run(work())
    gc.collect()
    assert caplog.text == ""


def test_what_is_on_its_way_at_once_is_bounded(tmp_path: Path) -> None:
    async def work() -> None:
        room = UploadLimits(2 * len(DATA), 3 * len(DATA))
        parties = "ppp" + "qqq"
        calls = [contents.keep(party, DATA, room) for party in parties]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        refused = [isinstance(outcome, LimitReached) for outcome in outcomes]
        assert refused == [False, False, True, False, True, True]

    contents = ArtifactContents(tmp_path / "a")
    asyncio.run(work())
