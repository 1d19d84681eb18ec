"""Packs on their way to and from people: bounded in number, bytes and time (attack 59)."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never

import pytest
from fixtures.meta_repo import Meta, family
from typing_extensions import override

from hive_core.errors import Busy, Conflict, Expired, Internal, InvalidArgument, LimitReached
from hive_core.host.git import pushes as pushing
from hive_core.host.git.pack_exports import PackExports
from hive_core.host.git.pushes import Pushes
from hive_core.host.storage import uploads
from hive_core.host.storage.uploads import PushUploads
from hive_core.model.config.push import PackChunk, Push
from hive_core.model.config.settings import Settings
from hive_core.testing import MemoryJobs, MemoryMachines

PUSH = Push("meta", "refs/heads/main", "1" * 40, "2" * 40, 0)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_parts_of_a_pack_become_one_and_the_last_one_may_come_again(tmp_path: Path) -> None:
    pushes = PushUploads(tmp_path, 100, Clock())
    id_ = pushes.add(PUSH, PackChunk(b"one", more=True))
    pushes.add(PUSH, PackChunk(b"two", id_, 3, more=True))
    pushes.add(PUSH, PackChunk(b"2wo", id_, 3, more=True))  # its answer was lost
    with pytest.raises(InvalidArgument, match="must begin at 6"):
        pushes.add(PUSH, PackChunk(b"x", id_, 1))
    with pytest.raises(Conflict):
        pushes.add(replace(PUSH, new="3" * 40), PackChunk(b"x", id_, 6))
    pushes.add(PUSH, PackChunk(b"!", id_, 6))
    assert pushes.take(id_) == b"one2wo!"
    assert files(tmp_path) == []


def test_a_pack_beyond_its_bound_is_dropped_as_soon_as_that_shows(tmp_path: Path) -> None:
    pushes = PushUploads(tmp_path, 5, Clock())
    id_ = pushes.add(PUSH, PackChunk(b"12345", more=True))
    with pytest.raises(LimitReached):
        pushes.add(PUSH, PackChunk(b"6", id_, 5, more=True))
    assert files(tmp_path) == []


def test_abandoned_uploads_make_room_for_others(tmp_path: Path) -> None:
    clock = Clock()
    pushes = PushUploads(tmp_path, 100, clock)
    first = [pushes.add(PUSH, PackChunk(b"x", more=True)) for _ in range(uploads.MOST)]
    with pytest.raises(Busy):
        pushes.add(PUSH, PackChunk(b"x", more=True))
    clock.now = uploads.IDLE + 1
    pushes.add(PUSH, PackChunk(b"x", more=True))
    assert len(files(tmp_path)) == uploads.MOST
    with pytest.raises(Conflict):
        pushes.add(PUSH, PackChunk(b"x", first[0], 1))
    clock.now = 2 * uploads.DEAD
    pushes.add(PUSH, PackChunk(b"x", more=True))
    assert len(files(tmp_path)) == 1


def test_packs_that_are_not_fetched_make_room_and_say_so(tmp_path: Path, meta: Meta) -> None:
    hive = meta.change(family("anna"))
    folder, work = meta.repo.folder, tmp_path / "work"

    async def main() -> None:
        exports = PackExports(work, piece=100, most=2)

        async def fetch_first_part() -> str | None:
            """The first part may be empty on a machine that is busy; it is asked for again."""
            data, last = await exports.pack(folder, [hive.commit], [], None)
            while not data:
                data, last = await exports.pack(folder, [hive.commit], [], last)
            return last

        first = await fetch_first_part()
        assert first
        await fetch_first_part()
        last = await fetch_first_part()
        with pytest.raises(Expired):
            await exports.pack(folder, [hive.commit], [], first)
        assert len(files(work)) == 2
        while last is not None:
            _, last = await exports.pack(folder, [hive.commit], [], last)
        assert len(files(work)) == 1
        with pytest.raises(InvalidArgument):
            await exports.pack(folder, [hive.commit], [], "../../etc")
        with pytest.raises(Expired):
            await exports.pack(folder, [hive.commit], [], "nothing.0")
        with pytest.raises(Internal, match="cannot read"):
            await exports.pack(folder, ["4" * 40], [], None)

    asyncio.run(main())


def test_a_caller_that_waits_for_a_pack_that_makes_room_is_told_and_nothing_of_it_stays(
    tmp_path: Path, meta: Meta
) -> None:
    """It waited for ever: a call whose work is cancelled is never answered."""
    hive = meta.change(family("anna"))
    folder, work = meta.repo.folder, tmp_path / "work"

    async def main() -> None:
        exports = PackExports(work, most=1)
        first = asyncio.create_task(exports.pack(folder, [hive.commit], [], None))
        await asyncio.sleep(0)  # it is under way
        _, following = await exports.pack(folder, [hive.commit], [], None)
        with pytest.raises(Expired, match="fetch again"):
            await first
        assert following is None
        assert files(work) == []
        with pytest.raises(InvalidArgument):
            await exports.pack(folder, [hive.commit], [], f"x.{'9' * 40}")

    asyncio.run(main())


def test_what_a_clone_has_is_not_sent_again(tmp_path: Path, meta: Meta) -> None:
    first = meta.change(family("anna"))
    second = meta.change(first.without("anna"))

    async def count(wants: str, haves: list[str]) -> int:
        data, following = await PackExports(tmp_path / "work").pack(
            meta.repo.folder, [wants], haves, None
        )
        assert following is None
        return int.from_bytes(data[8:12], "big")

    whole = asyncio.run(count(second.commit, []))
    rest = asyncio.run(count(second.commit, [first.commit, "5" * 40]))
    assert rest < whole
    assert asyncio.run(count(second.commit, [second.commit])) == 0


class Pack(bytearray):
    """Bytes that can be watched."""


class GatedPushes(Pushes):
    """Judges every push when the test says so, and refuses it."""

    gate: asyncio.Event
    packs: list[weakref.ref[Pack]]

    @override
    async def _commit(self, push: Push, data: bytes) -> str:
        del push
        self.packs.append(weakref.ref(held := Pack(data)))
        await self.gate.wait()
        raise Conflict(f"{len(held)} bytes are refused")


def build_gated_pushes(work: Path) -> GatedPushes:
    def must_not_run(*_: object) -> Never:
        raise AssertionError

    made = GatedPushes(
        Settings(),
        MemoryJobs(MemoryMachines()),
        must_not_run,
        must_not_run,
        must_not_run,
        PushUploads(work, 100),
    )
    made.gate, made.packs = asyncio.Event(), []
    return made


def test_pushes_that_are_judged_at_once_are_bounded_in_bytes_and_the_last_part_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight of 60 MB each took more memory than the daemon may have."""
    monkeypatch.setattr(pushing, "BYTES_AT_ONCE", 10)

    async def main() -> None:
        pushes = build_gated_pushes(tmp_path)
        first = asyncio.create_task(pushes.push(PUSH, PackChunk(b"more than ten")))  # alone it may
        await asyncio.sleep(0)
        begun = await pushes.push(PUSH, PackChunk(b"one", more=True))
        last = PackChunk(b"two", begun.upload, 3)
        with pytest.raises(Busy, match="fill the memory; try again"):
            await pushes.push(PUSH, last)
        pushes.gate.set()
        with pytest.raises(Conflict, match="13 bytes"):
            await first
        with pytest.raises(Conflict, match="6 bytes"):
            await pushes.push(PUSH, last)

    asyncio.run(main())


def test_a_judged_push_whose_client_is_gone_takes_no_place_and_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "AT_ONCE", 1)

    async def main() -> None:
        pushes = build_gated_pushes(tmp_path)
        client = asyncio.create_task(pushes.push(PUSH, PackChunk(b"one")))
        await asyncio.sleep(0.01)
        client.cancel()
        with pytest.raises(Busy):
            await pushes.push(PUSH, PackChunk(b"two"))
        pushes.gate.set()
        await asyncio.sleep(0.01)
        assert [pack() for pack in pushes.packs] == [None]
        with pytest.raises(Conflict):
            await pushes.push(PUSH, PackChunk(b"two"))

    asyncio.run(main())
