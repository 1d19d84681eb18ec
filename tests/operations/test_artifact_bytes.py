"""Artifacts whose bytes are on their way: others are served, and nothing is seen before its end."""

from __future__ import annotations

import asyncio
import base64
import errno
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from fixtures.world import Exchange, Reply, World, world
from operations.test_artifacts import encode, files, read, store

from hive_core import varlink
from hive_core.broker.connection import ClientConnection
from hive_core.errors import HIVE, HiveError, Internal, NotAllowed, NotFound
from hive_core.model.config.settings import Settings

T = TypeVar("T")


class Held:
    """Work beside the loop, held up until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self._go = asyncio.Event()

    async def __call__(self, work: Callable[[], T], /) -> T:
        self.begun += 1
        await self._go.wait()
        return work()

    def let_go(self, hive: World) -> None:
        self._go.set()
        hive.run()


@pytest.fixture(name="hive")
def _hive() -> Iterator[World]:
    with world(None, "root/a", "a/a1:worker", "root/b") as made:
        yield made


def hold(hive: World) -> Held:
    hive.contents.beside = held = Held()
    return held


def start_store(hive: World, **params: object) -> Exchange:
    said: Reply = {"name": "notes", "text": "hello", **params}
    return hive.ask_as(hive.uuid("a"), "store_artifact", said)


def fault(exchange: Exchange) -> HiveError:
    with pytest.raises(HiveError) as refused:
        exchange.result()
    return refused.value


def test_others_are_served_while_a_part_is_written(hive: World) -> None:
    upload, held = str(hive.call("a", "begin_artifact")["upload"]), hold(hive)
    part = hive.ask("a", "append_artifact", upload=upload, offset=0, data=encode(b"x" * 500_000))
    served = [hive.call("b", "list_artifacts") for _ in range(100)]
    assert (len(served), held.begun, part.pending) == (100, 1, True)
    held.let_go(hive)
    assert part.result() == {"size": 500_000}


@pytest.mark.parametrize("how", ["text", "upload"])
def test_nothing_is_seen_of_what_is_not_on_the_disk_yet(hive: World, how: str) -> None:
    params: dict[str, object] = {}
    if how == "upload":
        upload = str(hive.call("a", "begin_artifact")["upload"])
        hive.call("a", "append_artifact", upload=upload, offset=0, data=encode(b"hello"))
        params = {"text": None, "upload": upload}
    held = hold(hive)
    storing = start_store(hive, **params)
    assert storing.pending
    assert hive.fault("a", "get_artifact", name="notes") == "NotFound"
    assert hive.ledger.artifacts.usage(hive.uuid("a")) == (0, 0)
    held.let_go(hive)
    assert storing.result()["version"] == 1
    assert read(hive, name="notes") == b"hello"


def test_a_caller_that_lost_the_right_stores_nothing(hive: World) -> None:
    held = hold(hive)
    storing = start_store(hive)
    hive.call("operator", "revoke_capability", agent="a", capability="artifact.write")
    held.let_go(hive)
    assert isinstance(fault(storing), NotAllowed)
    assert hive.ledger.artifacts.usage(hive.uuid("a")) == (0, 0)


def test_a_call_that_is_repeated_meanwhile_stores_once(hive: World) -> None:
    held = hold(hive)
    calls = [start_store(hive, idempotency_key="k") for _ in range(2)]
    held.let_go(hive)
    first, second = (call.result() for call in calls)
    assert first == second
    assert first["version"] == 1


def test_a_client_that_hangs_up_stores_nothing_and_what_it_sent_goes_after_a_while(
    hive: World,
) -> None:
    held = hold(hive)
    start_store(hive).close()
    held.let_go(hive)
    assert hive.fault("a", "get_artifact", name="notes") == "NotFound"
    assert hive.contents.pending_bytes(hive.uuid("a")) == 5
    hive.advance(61)
    store(hive, "b", "other")
    assert hive.contents.pending_bytes() == 0
    assert len(files(hive)) == 1


def test_a_call_without_an_answer_is_stored_all_the_same(hive: World) -> None:
    said: varlink.Message = {
        "method": HIVE + "StoreArtifact", "parameters": {"name": "notes", "text": "hello"},
        "oneway": True,
    }  # fmt: skip
    sent: list[bytes] = []
    line = ClientConnection(hive.uuid("a"), 0, lambda data, _: sent.append(data))
    hive.broker.receive(line, [varlink.encode(said)[:-1]])
    hive.run()
    assert read(hive, name="notes") == b"hello"
    assert (b"".join(sent), line.bytes_held, len(line.calls)) == (b"", 0, 0)


def test_a_daemon_that_is_killed_meanwhile_leaves_nothing(hive: World) -> None:
    hold(hive)
    start_store(hive)
    hive.kill()
    assert hive.fault("a", "get_artifact", name="notes") == "NotFound"
    assert list(hive.contents.remaining_digests()) == []
    assert files(hive) == []
    assert store(hive)["version"] == 1


@pytest.mark.parametrize("at", ["before there is a file", "written"])
def test_nothing_is_left_of_what_a_caller_stores_that_ends_meanwhile(hive: World, at: str) -> None:
    a, held = hive.uuid("a"), hold(hive)

    def step(name: str) -> None:
        if name == at:
            hive.contents.cancel(a)

    hive.contents.blobs.step = step
    storing = start_store(hive)
    if at != "written":
        hive.call("operator", "destroy", agent="a")
    held.let_go(hive)
    assert isinstance(fault(storing), NotFound if at != "written" else Internal)
    assert (hive.contents.pending_bytes(), files(hive)) == (0, [])


def test_an_upload_whose_name_did_not_come_to_the_disk_can_be_stored_again(hive: World) -> None:
    """The rename worked, and the sync of its folder did not."""
    upload = str(hive.call("a", "begin_artifact")["upload"])
    hive.call("a", "append_artifact", upload=upload, offset=0, data=encode(b"hello"))
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if steps == ["synced", "renamed"]:
            raise OSError(errno.EIO, "Input/output error")

    hive.contents.blobs.step = step
    assert hive.fault("a", "store_artifact", name="notes", upload=upload) == "Internal"
    assert hive.fault("a", "get_artifact", name="notes") == "NotFound"
    assert hive.call("a", "store_artifact", name="notes", upload=upload)["version"] == 1
    assert steps == ["synced", "renamed", "renamed", "kept"]
    assert read(hive, name="notes") == b"hello"


def test_more_of_an_upload_that_has_its_name_already_is_another_upload(hive: World) -> None:
    upload = str(hive.call("a", "begin_artifact")["upload"])
    hive.call("a", "append_artifact", upload=upload, offset=0, data=encode(b"hello"))

    def step(name: str) -> None:
        if name == "renamed":
            raise OSError(errno.EIO, "Input/output error")

    hive.contents.blobs.step = step
    assert hive.fault("a", "store_artifact", name="notes", upload=upload) == "Internal"
    with pytest.raises(NotFound, match="begin a new one"):
        hive.call("a", "append_artifact", upload=upload, offset=5, data=encode(b" you"))
    assert hive.contents.pending_bytes(hive.uuid("a")) == 0


def test_one_that_is_deleted_while_it_is_read_is_not_there_and_is_no_damage(hive: World) -> None:
    id_, alarms = store(hive)["id"], list[str]()
    hive.contents.alarm = alarms.append
    held = hold(hive)
    reading = hive.ask("a", "get_artifact", name="notes")
    hive.call("a", "delete_artifact", id=id_)
    hive.advance(1)
    assert files(hive) == []
    held.let_go(hive)
    assert isinstance(fault(reading), NotFound)
    assert alarms == []


def test_a_name_that_got_new_bytes_while_it_was_read_is_read_again(hive: World) -> None:
    store(hive, "a", "old")
    held = hold(hive)
    reading = hive.ask("a", "get_artifact", name="notes")
    held.let_go(hive)
    held = hold(hive)
    again = hive.ask("a", "get_artifact", name="notes")
    newer = start_store(hive, text="new")
    held.let_go(hive)
    assert base64.b64decode(str(reading.result()["data"])) == b"old"
    result = again.result()
    row = result["artifact"]
    assert isinstance(row, dict)
    assert newer.result()["version"] == 2
    expected = {1: b"old", 2: b"new"}[int(row["version"])]
    assert base64.b64decode(str(result["data"])) == expected


def test_a_store_is_one_call_however_long_it_takes() -> None:
    """Its bytes come to the disk between two askings; it is paced, and counted, once."""
    settings = Settings.model_validate({"limits": {"change_rate": 0.1, "change_burst": 3}})
    with world(settings, "root/a") as small:
        for number in range(3):
            store(small, "a", str(number))
        assert small.fault("a", "store_artifact", name="notes", text="x") == "LimitReached"
