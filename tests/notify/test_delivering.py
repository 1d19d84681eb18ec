"""hive-notify against a loopback twin of ntfy and of a webhook: limits, 429, auth, restarts."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from each import for_each
from fixtures.ntfy import NtfyTwin, ntfy_twin

from hive_core.errors import InvalidArgument, Unreachable
from hive_core.model.config.notify import NotifyRoute, webhook_key
from hive_core.notify.deliveries import (
    LONGEST,
    QUEUED_MOST,
    Delivered,
    NotifyState,
    Rejected,
    TryLater,
    due_deliveries,
    enqueue_notices,
    settle_delivery,
)
from hive_core.notify.links import LinkedThing
from hive_core.notify.main import build_sender, load_config
from hive_core.notify.notices import Notice, NoticeLink
from hive_core.notify.notifier import Notifier
from hive_core.notify.outcomes import SettledItem
from hive_core.notify.senders import (
    MESSAGE_BYTES,
    NtfySender,
    WebhookSender,
    ntfy_message,
)
from hive_core.services.retries import pause_after, retry_after
from hive_core.services.service_files import ServiceStateFile

TOKEN = "tk_of_a_test"  # noqa: S105 - opens nothing
SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
NOTICE = Notice(kind="new", key="question:q1", notice_class="needs-input", title="hive: question")
QUESTION: Mapping[str, object] = {"kind": "question", "id": "q1", "agent": "ann", "text": "why?"}
HOSTILE = "\x1b]0;x\x07\r\n\u202e</template>\x00" + "é" * 70_000


@pytest.fixture
def ntfy() -> Iterator[NtfyTwin]:
    with ntfy_twin() as twin:
        yield twin


@dataclass
class MemorySource:
    """hived, as a test says. `is_silent`: it does not answer."""

    waiting: list[Mapping[str, object]] = field(default_factory=list)
    log: list[Mapping[str, object]] = field(default_factory=list)
    is_silent: bool = False
    reported: list[Mapping[str, str]] = field(default_factory=list)

    async def todo(self) -> list[Mapping[str, object]]:
        return list(self.waiting)

    async def links(self, thing: LinkedThing) -> list[NoticeLink]:
        if self.is_silent:
            raise Unreachable("cannot reach hived")
        url = f"http://x/{thing.id}"
        return [NoticeLink(label=f"{thing.kind} {number}", url=url) for number in range(2)]

    async def outcome(self, item: SettledItem) -> str:
        if self.is_silent:
            raise Unreachable("cannot reach hived")
        return f"answered by alice since {item.since}"

    async def report(self, faults: Mapping[str, str]) -> None:
        if self.is_silent:
            raise Unreachable("cannot reach hived")
        self.reported.append(faults)

    async def events(self, after: str | None) -> tuple[list[Mapping[str, object]], str]:
        if self.is_silent:
            raise Unreachable("cannot reach hived")
        start = len(self.log) if after is None else int(after)
        return self.log[start:], str(len(self.log))


@dataclass
class NotifierHarness:
    """A notifier whose time a test sets, with one route to the twin."""

    folder: Path
    twin: NtfyTwin
    source: MemorySource = field(default_factory=MemorySource)
    time: float = 1_700_000_000.0
    token: str = ""
    text: str = "title"

    def run(self, tell: Callable[[Notifier], Awaitable[None]]) -> None:
        """A run of the program, from its start to its end."""
        asyncio.run(self._run(tell))

    async def _run(self, tell: Callable[[Notifier], Awaitable[None]]) -> None:
        route = NotifyRoute.model_validate(
            {"type": "ntfy", "url": self.twin.url, "topic": "t", "text": self.text}
        )
        async with httpx2.AsyncClient(trust_env=False) as client:
            sender = NtfySender(route, client, self.token, "http://localhost:4483")
            file = ServiceStateFile(self.folder / "state.json", NotifyState)
            routes = {"phone": route}
            notifier = Notifier(self.source, routes, {"phone": sender}, file, lambda: self.time)
            notifier.load()
            await tell(notifier)

    async def step(self, notifier: Notifier, seconds: float = 2.0) -> None:
        self.time += seconds
        await notifier.step()


@pytest.fixture
def harness(tmp_path: Path, ntfy: NtfyTwin) -> NotifierHarness:
    return NotifierHarness(tmp_path, ntfy)


def test_an_item_is_sent_replaced_by_its_end_and_has_one_name(harness: NotifierHarness) -> None:
    async def tell(notifier: Notifier) -> None:
        harness.source.waiting = [QUESTION]
        await harness.step(notifier)
        await harness.step(notifier)
        harness.source.waiting = []
        await harness.step(notifier, 40)

    harness.run(tell)
    first, last = harness.twin.messages
    assert first["title"] == last["title"] == "hive: ann asks a question"
    assert first["sequence_id"] == last["sequence_id"]
    assert (first["priority"], last["priority"]) == (4, 1)
    assert first["click"] == "http://localhost:4483/questions/q1"
    assert last["message"] == "answered by alice since 1700000002.0"
    assert "click" not in last


def test_a_route_that_sends_no_text_names_no_page_and_nobody_who_settled_it(
    harness: NotifierHarness,
) -> None:
    harness.text = "none"

    async def tell(notifier: Notifier) -> None:
        harness.source.waiting = [QUESTION]
        await harness.step(notifier)
        harness.source.waiting = []
        await harness.step(notifier, 40)

    harness.run(tell)
    first, last = harness.twin.messages
    assert first["click"] == "http://localhost:4483"
    assert last["message"] == "settled"


def test_what_was_queued_is_sent_after_a_restart_and_nothing_twice(
    harness: NotifierHarness,
) -> None:
    harness.twin.answers = [(503, {})]

    async def begin(notifier: Notifier) -> None:
        harness.source.waiting = [QUESTION]
        await harness.step(notifier)

    async def go_on(notifier: Notifier) -> None:
        await harness.step(notifier)
        await harness.step(notifier)

    harness.run(begin)
    assert harness.twin.messages == []
    harness.run(go_on)
    assert len(harness.twin.messages) == 1


def test_events_before_the_first_start_are_not_told_and_those_of_a_break_are(
    harness: NotifierHarness,
) -> None:
    ended = {"seq": 1, "kind": "task", "target": "ann", "operation": "finish", "reason": "",
             "fields": {"task": "t1", "assigner": "operator", "state": "done"}}  # fmt: skip
    harness.source.log = [ended]
    harness.run(harness.step)
    assert harness.twin.messages == []
    harness.source.log.append({**ended, "seq": 2, "fields": {**ended["fields"], "task": "t2"}})  # type: ignore[dict-item]  # JSON
    harness.run(harness.step)
    harness.run(harness.step)
    assert [message["title"] for message in harness.twin.messages] == [
        "hive: ann's task ended: done"
    ]


def test_a_receiver_that_asks_to_wait_is_waited_for(harness: NotifierHarness) -> None:
    harness.twin.answers = [(429, {"retry-after": "30"})]

    async def tell(notifier: Notifier) -> None:
        harness.source.waiting = [QUESTION]
        await harness.step(notifier)
        await harness.step(notifier, 20)
        assert len(harness.twin.requests) == 1
        await harness.step(notifier, 11)
        assert len(harness.twin.messages) == 1

    harness.run(tell)


def test_a_wrong_token_is_tried_again_until_it_is_mended(harness: NotifierHarness) -> None:
    harness.twin.token = TOKEN

    async def tell(notifier: Notifier) -> None:
        harness.source.waiting = [QUESTION]
        await harness.step(notifier)
        assert harness.twin.messages == []
        harness.twin.token = ""
        await harness.step(notifier, 61)
        assert len(harness.twin.messages) == 1

    harness.run(tell)


def test_hived_that_is_silent_for_a_minute_is_urgent_and_then_settled(
    harness: NotifierHarness,
) -> None:
    async def tell(notifier: Notifier) -> None:
        await harness.step(notifier)
        harness.source.is_silent = True
        await harness.step(notifier, 59)
        assert harness.twin.messages == []
        await harness.step(notifier, 2)
        harness.source.is_silent = False
        await harness.step(notifier, 2)

    harness.run(tell)
    assert [message["title"] for message in harness.twin.messages] == [
        "hive: hived does not answer", "hive: hived does not answer",
    ]  # fmt: skip
    assert [message["priority"] for message in harness.twin.messages] == [5, 1]


def test_hostile_text_is_spelled_out_and_fits(harness: NotifierHarness) -> None:
    harness.text = "full"

    async def tell(notifier: Notifier) -> None:
        harness.source.waiting = [{**QUESTION, "text": HOSTILE}]
        await harness.step(notifier)

    harness.run(tell)
    (message,) = harness.twin.messages
    text = str(message["message"])
    assert "⟨U+001B⟩" in text
    assert not {"\x1b", "\r", "\n", "\u202e", "\x00"} & set(text)
    long = NOTICE.model_copy(update={"body": "é" * 9000})
    assert len(str(ntfy_message("t", long, "")["message"]).encode()) <= MESSAGE_BYTES


def test_a_damaged_state_begins_anew_and_a_secret_never_is_in_it(
    harness: NotifierHarness,
) -> None:
    (harness.folder / "state.json").write_text("{", encoding="utf-8")
    harness.token = TOKEN
    harness.twin.answers = [(500, {})]
    harness.source.waiting = [QUESTION]
    harness.run(harness.step)
    stored = (harness.folder / "state.json").read_text(encoding="utf-8")
    assert "question:q1" in stored
    assert TOKEN not in stored


def test_a_webhook_is_signed_and_repeated_under_the_same_id(ntfy: NtfyTwin) -> None:
    route = NotifyRoute(type="webhook", url=f"{ntfy.url}/hook")
    (delivery,) = enqueue_notices((), "hook", [NOTICE], 1.0)
    ntfy.answers = [(503, {}), (204, {})]

    async def send() -> list[object]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            sender = WebhookSender(route, client, webhook_key(SECRET))
            return [await sender.send(delivery), await sender.send(delivery)]

    first, second = asyncio.run(send())
    assert isinstance(first, TryLater)
    assert second == Delivered()
    for headers, body in ntfy.requests:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        signature = base64.b64encode(hmac.digest(bytes(32), signed, "sha256")).decode()
        assert headers["webhook-signature"] == f"v1,{signature}"
        assert headers["webhook-id"] == delivery.id
    assert json.loads(ntfy.requests[0][1])["type"] == "notice.new"


def test_no_redirect_is_followed_and_a_refusal_is_not_repeated(ntfy: NtfyTwin) -> None:
    route = NotifyRoute(type="ntfy", url=ntfy.url, topic="t")
    (delivery,) = enqueue_notices((), "phone", [NOTICE], 1.0)
    ntfy.answers = [(302, {"location": "http://127.0.0.1:1/"}), (400, {})]

    async def send() -> list[object]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            sender = NtfySender(route, client, "secret")
            return [await sender.send(delivery), await sender.send(delivery)]

    assert all(isinstance(outcome, Rejected) for outcome in asyncio.run(send()))
    assert len(ntfy.requests) == 2


# The queue


def test_the_queue_has_an_end_and_keeps_what_is_urgent() -> None:
    urgent = NOTICE.model_copy(update={"notice_class": "urgent"})
    queue = enqueue_notices((), "a", [urgent], 1.0)
    queue = enqueue_notices(queue, "a", [NOTICE] * (QUEUED_MOST + 50), 2.0)
    assert len(queue) == QUEUED_MOST
    assert queue[0].notice.notice_class == "urgent"


def test_a_delivery_is_given_up_after_a_day_and_pauses_grow_to_five_minutes() -> None:
    queue = enqueue_notices((), "a", [NOTICE], 0.0)
    now, attempts = 0.0, 0
    while queue:
        (delivery,) = due_deliveries(queue, now)
        queue = settle_delivery(queue, delivery, TryLater("down"), now)
        now, attempts = (queue[0].due if queue else now), attempts + 1
    assert LONGEST <= now <= LONGEST + 300
    assert [pause_after(number) for number in (0, 1, 2, 8, 50)] == [1, 2, 4, 256, 300]
    assert attempts < 320


def test_a_receiver_that_is_down_holds_up_no_other() -> None:
    queue = enqueue_notices(enqueue_notices((), "a", [NOTICE, NOTICE], 0.0), "b", [NOTICE], 0.0)
    first = due_deliveries(queue, 0.0)
    assert [one.route for one in first] == ["a", "b"]
    queue = settle_delivery(queue, first[0], TryLater("down"), 0.0)
    assert [one.route for one in due_deliveries(queue, 0.5)] == ["b"]


@for_each(
    "text, seconds",
    [
        ("30", 30.0), ("Thu, 01 Jan 1970 00:01:00 GMT", 60.0), ("soon", 0.0), (None, 0.0),
        (f"Thu, 01 Jan {'9' * 20} 00:01:00 GMT", 0.0),
        (f"Thu, 01 Jan 1970 00:01:00 +{'9' * 20}", 0.0),
    ],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(text: str | None, seconds: float) -> None:
    assert retry_after(text, 0.0) == seconds


# Its settings


def test_settings_are_read_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "hive.toml"
    file.write_text(
        '[web]\norigins = ["http://localhost:9", "https://hive.example"]\n[notify.routes.phone]\n'
        'type = "ntfy"\nurl = "https://ntfy.sh"\ntopic = "t"\n',
        encoding="utf-8",
    )
    config = load_config(file)
    assert ([*config.routes], config.dashboard) == (["phone"], "https://hive.example")
    file.write_text("[notify]\nroute = 1\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"notify\.route: unknown key"):
        load_config(file)
    for text in ("notify = 1\n", "[notify]\nroutes = 1\n"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidArgument, match="notify"):
            load_config(file)
    config = load_config(tmp_path / "none.toml")
    assert (config.routes, config.dashboard) == ({}, "http://localhost:4483")


def test_a_secret_comes_from_the_credentials_of_the_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "notify_hook").write_text(SECRET + "\n", encoding="utf-8")
    client = httpx2.AsyncClient()
    route = NotifyRoute(type="webhook", url="https://x.example")
    sender = build_sender("hook", route, "", client)
    assert isinstance(sender, WebhookSender)
    assert sender.key == bytes(32)
    with pytest.raises(InvalidArgument, match=r"/etc/hive/notify/other: .* whsec_ "):
        build_sender("other", route, "", client)
    with pytest.raises(InvalidArgument, match="apprise"):
        build_sender("other", NotifyRoute(type="apprise"), "", client)
    assert NotifyState.model_validate_json(NotifyState().model_dump_json()) == NotifyState()
