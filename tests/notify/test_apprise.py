"""A route of type apprise: through the package where it is installed, else through a stand-in."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import fixtures
import httpx2
import pytest
from fixtures.ntfy import NtfyTwin, ntfy_twin

from hive_core.errors import InvalidArgument
from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.deliveries import (
    Delivered,
    DeliveryOutcome,
    NoticeDelivery,
    TryLater,
    enqueue_notices,
)
from hive_core.notify.main import build_sender
from hive_core.notify.notices import Notice
from hive_core.notify.senders import Sender

STANDIN = Path(next(iter(fixtures.__path__))) / "apprise_standin"
ROUTE = NotifyRoute(type="apprise")
NOTICE = Notice(
    kind="new", key="question:q1", notice_class="needs-input", title="hive: ann asks a question",
    body="which colour?",
)  # fmt: skip


@pytest.fixture(name="credentials")
def _credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the credentials; the package apprise can be imported meanwhile."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    if importlib.util.find_spec("apprise") is not None:
        yield tmp_path
        return
    monkeypatch.syspath_prepend(STANDIN)
    yield tmp_path
    sys.modules.pop("apprise", None)


def build(credentials: Path, secret: str) -> Sender:
    """The sender of the route `home`, as hive-notify builds it."""
    (credentials / "notify_home").write_text(secret, encoding="utf-8")
    return build_sender("home", ROUTE, "http://localhost:4483", httpx2.AsyncClient())


def send(sender: Sender, notice: Notice) -> DeliveryOutcome:
    delivery: NoticeDelivery
    (delivery,) = enqueue_notices((), "home", [notice], 1.0)
    return asyncio.run(sender.send(delivery))


def test_a_notice_reaches_each_address_of_the_secret(credentials: Path) -> None:
    with ntfy_twin() as one, ntfy_twin() as other:
        addresses = [twin.url.replace("http", "json", 1) for twin in (one, other)]
        sender = build(credentials, "\n".join(addresses))
        assert send(sender, NOTICE) == Delivered()
        silent = NOTICE.model_copy(update={"body": ""})
        assert send(sender, silent) == Delivered()
    expected = [
        ("hive: ann asks a question", "which colour?"),
        ("hive: ann asks a question", "hive: ann asks a question"),
    ]
    assert texts(one) == texts(other) == expected


def texts(twin: NtfyTwin) -> list[tuple[object, object]]:
    return [(message["title"], message["message"]) for message in twin.messages]


def test_an_end_is_not_sent_since_apprise_replaces_nothing(credentials: Path) -> None:
    with ntfy_twin() as twin:
        sender = build(credentials, twin.url.replace("http", "json", 1))
        ended = NOTICE.model_copy(update={"kind": "settled"})
        assert send(sender, ended) == Delivered()
        assert twin.requests == []


def test_a_receiver_that_refuses_is_tried_again(credentials: Path) -> None:
    with ntfy_twin() as twin:
        twin.answers = [(500, {})]
        sender = build(credentials, twin.url.replace("http", "json", 1))
        assert isinstance(send(sender, NOTICE), TryLater)
        assert send(sender, NOTICE) == Delivered()


def test_an_address_of_no_known_kind_is_refused_and_not_shown(credentials: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not know an address") as refused:
        build(credentials, "nonsense:password")
    assert "password" not in str(refused.value)
