"""hive-notify while a receiver is slow, and where it starts before hived answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from each import for_each
from typing_extensions import override

from hive_core.errors import NotAllowed, Unreachable
from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.deliveries import (
    Delivered,
    DeliveryOutcome,
    NoticeDelivery,
    NotifyState,
    enqueue_notices,
)
from hive_core.notify.links import LinkedThing
from hive_core.notify.notices import Notice, NoticeLink
from hive_core.notify.notifier import SILENT_AFTER, Notifier
from hive_core.notify.outcomes import SettledItem
from hive_core.notify.senders import NtfySender
from hive_core.notify.source import LoginSource
from hive_core.operations.host.notice_routes import NoteRoutesParams
from hive_core.services.service_files import ServiceStateFile
from hive_core.varlink import Message

ROUTE = NotifyRoute(type="ntfy", url="http://127.0.0.1:1", topic="t")
NOTICE = Notice(kind="new", key="question:q1", notice_class="needs-input", title="hive: question")


def question(id_: str) -> Mapping[str, object]:
    return {"kind": "question", "id": id_, "agent": "ann", "text": "why?"}


@dataclass
class MemorySource:
    """hived, as a test says. `is_silent`: it does not answer."""

    waiting: list[Mapping[str, object]] = field(default_factory=list)
    is_silent: bool = False
    reports: int = 0

    async def todo(self) -> list[Mapping[str, object]]:
        return list(self.waiting)

    async def report(self, faults: Mapping[str, str]) -> None:
        self.reports += 1
        raise NotAllowed(f"cannot note routes: {sorted(faults)}")

    async def events(self, after: str | None) -> tuple[list[Mapping[str, object]], str]:
        if self.is_silent:
            raise Unreachable("cannot reach hived")
        return [], str(int(after or 0) + 1)  # what waits is looked at each time

    async def links(self, thing: LinkedThing) -> list[NoticeLink]:
        raise Unreachable(f"cannot offer links of {thing.id}")

    async def outcome(self, item: SettledItem) -> str:
        return f"{item.id} answered"


@dataclass
class Receiver:
    """Takes a notice at once, or with `gate` once that is set; with `fault` it raises that."""

    gate: asyncio.Event | None = None
    fault: Exception | None = None
    taken: list[Notice] = field(default_factory=list)

    async def send(self, delivery: NoticeDelivery) -> DeliveryOutcome:
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        self.taken.append(delivery.notice)
        return Delivered()

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(notice.kind, notice.key) for notice in self.taken]


@dataclass
class Times:
    now: float = 1_700_000_000.0

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


def new_notifier(
    folder: Path, source: MemorySource, times: Times, **receivers: Receiver
) -> Notifier:
    """The program as it starts."""
    file = ServiceStateFile(folder / "state.json", NotifyState)
    routes = dict.fromkeys(receivers, ROUTE)
    notifier = Notifier(source, routes, receivers, file, lambda: times.now)
    notifier.load()
    return notifier


def test_nothing_is_called_settled_before_hived_has_said_what_waits(tmp_path: Path) -> None:
    source, times, phone = MemorySource([question("q1")]), Times(), Receiver()

    async def notify_before_the_restart() -> None:
        await new_notifier(tmp_path, source, times, phone=phone).step()

    async def notify_after_it() -> None:
        notifier = new_notifier(tmp_path, source, times, phone=phone)
        source.is_silent = True
        for _ in range(3):
            times.pass_by(SILENT_AFTER / 2)
            await notifier.step()
        assert phone.told == [("new", "question:q1"), ("new", "silent")]
        source.is_silent = False
        await notifier.step()
        source.waiting = []
        await notifier.step()

    asyncio.run(notify_before_the_restart())
    asyncio.run(notify_after_it())
    assert phone.told == [
        ("new", "question:q1"), ("new", "silent"), ("settled", "silent"),
        ("settled", "question:q1"),
    ]  # fmt: skip


def test_a_report_that_hived_refuses_is_not_repeated_at_each_step(tmp_path: Path) -> None:
    source, times, phone = MemorySource([question("q1")]), Times(), Receiver()

    async def notify_for_a_minute() -> None:
        notifier = new_notifier(tmp_path, source, times, phone=phone)
        for _ in range(61):
            await notifier.step()
            times.pass_by(1.0)

    asyncio.run(notify_for_a_minute())
    assert source.reports == 3
    assert phone.told == [("new", "question:q1")]


class Calls(LoginSource):
    """What hived is asked."""

    def __init__(self) -> None:
        LoginSource.__init__(self, Path("/nowhere"), "")
        self.asked: list[Message] = []

    @override
    async def call(self, operation: str, parameters: Message) -> Message:
        self.asked.append(parameters)
        return {}


@for_each("name", ["", "téléphone", "a\nb", "x" * 200, "my 'phone'"])
def test_hived_is_told_of_a_route_also_where_its_name_is_the_fault(name: str) -> None:
    source = Calls()
    asyncio.run(source.report({name: "bad name", "phone": "no token"}))
    (asked,) = source.asked
    assert list(NoteRoutesParams.model_validate(asked).faults.values()) == ["bad name", "no token"]


def test_a_receiver_that_takes_long_holds_up_no_other(tmp_path: Path) -> None:
    source, times = MemorySource([question("q1")]), Times()

    async def notify() -> None:
        slow, quick = Receiver(asyncio.Event()), Receiver()
        notifier = new_notifier(tmp_path, source, times, slow=slow, quick=quick)
        async with asyncio.timeout(30):
            await notifier.step()
            source.waiting.append(question("q2"))
            times.pass_by(1.0)
            await notifier.step()
            assert slow.told == []
            assert quick.told == [("new", "question:q1"), ("new", "question:q2")]
            assert slow.gate is not None
            slow.gate.set()
            await notifier.step()
        assert slow.told == quick.told
        assert notifier.state.queue == ()

    asyncio.run(notify())


def test_a_receiver_whose_answer_does_not_end_has_the_notice() -> None:
    """Its status has said so."""
    (delivery,) = enqueue_notices((), "phone", [NOTICE], 1.0)
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\nsome")
        with suppress(OSError):
            await reader.read()  # until hive-notify has closed
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    async def send() -> DeliveryOutcome:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        route = ROUTE.model_copy(update={"url": f"http://127.0.0.1:{port}"})
        async with server, httpx2.AsyncClient(trust_env=False) as client, asyncio.timeout(15):
            outcome = await NtfySender(route, client).send(delivery)
            await ended.wait()
            return outcome

    assert asyncio.run(send()) == Delivered()


def test_a_sender_that_fails_holds_up_its_own_route_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """apprise calls plugins of others; what they raise may hold a password."""
    source, times = MemorySource([question("q1")]), Times()
    broken, phone = Receiver(fault=KeyError("mailto://me:secret@host")), Receiver()

    async def notify() -> None:
        notifier = new_notifier(tmp_path, source, times, broken=broken, phone=phone)
        await notifier.step()
        assert phone.told == [("new", "question:q1")]
        broken.fault = None
        times.pass_by(5.0)
        await notifier.step()

    asyncio.run(notify())
    assert broken.told == [("new", "question:q1")]
    assert "Cannot notify broken now: its sender failed with KeyError" in caplog.text
    assert "secret" not in caplog.text


def test_notices_are_sent_while_the_state_cannot_be_written(tmp_path: Path) -> None:
    """One of them says that the disk is full; each is sent once, as long as the program runs."""
    source, times, phone = MemorySource([question("q1")]), Times(), Receiver()
    state = tmp_path / "state.json"
    state.mkdir()  # nothing can take its place

    async def notify() -> None:
        notifier = new_notifier(tmp_path, source, times, phone=phone)
        for _ in range(3):
            await notifier.step()
            times.pass_by(1.0)
        state.rmdir()
        await notifier.step()

    asyncio.run(notify())
    assert phone.told == [("new", "question:q1")]
    assert "question:q1" in state.read_text(encoding="utf-8")
