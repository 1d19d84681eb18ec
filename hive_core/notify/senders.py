"""How notices leave the host: ntfy, webhooks after Standard Webhooks, and apprise.

https://docs.ntfy.sh/publish/ and https://www.standardwebhooks.com say what is sent.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import importlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import httpx2

from hive_core.errors import InvalidArgument
from hive_core.model.config.notify import NotifyRoute
from hive_core.notify.deliveries import (
    Delivered,
    DeliveryOutcome,
    NoticeDelivery,
    Rejected,
    TryLater,
)
from hive_core.notify.notices import Notice, NoticeLink, item_address, sequence_id
from hive_core.notify.webhook_body import webhook_body
from hive_core.plan.printable import escape
from hive_core.services.retries import retry_after

TIMEOUT: Final = 20.0
MESSAGE_BYTES: Final = 4096
ACTIONS_MOST: Final = 3
_TITLE_MOST: Final = 200
_FIRST_REDIRECT, _SERVER_FAULT = 300, 500
_TEMPORARY: Final = frozenset({408, 429})
_WRONG_SECRET: Final = frozenset({401, 403})
_PRIORITIES: Final = {"urgent": 5, "needs-input": 4, "failed": 4, "budget": 3, "done": 3}
_SETTLED_PRIORITY: Final = 1
_TAGS: Final = {
    "urgent": "rotating_light", "needs-input": "question", "failed": "x", "budget": "moneybag",
    "done": "white_check_mark",
}  # fmt: skip


class Sender(Protocol):
    """Brings one notice to one receiver."""

    async def send(self, delivery: NoticeDelivery) -> DeliveryOutcome: ...


@dataclass(frozen=True, slots=True)
class NtfySender:
    """Publishes to a topic. `dashboard`: the address behind *Open*; empty: none."""

    route: NotifyRoute
    client: httpx2.AsyncClient
    token: str = ""
    dashboard: str = ""

    async def send(self, delivery: NoticeDelivery) -> DeliveryOutcome:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        message = ntfy_message(self.route.topic, delivery.notice, self.dashboard)
        return await _post(self.client, self.route.url, json.dumps(message).encode(), headers)


def ntfy_message(topic: str, notice: Notice, dashboard: str) -> dict[str, object]:
    """The JSON of one notice. The same item has the same sequence, so that it is replaced."""
    settled = notice.kind == "settled"
    message: dict[str, object] = {
        "topic": topic, "title": escape(notice.title)[:_TITLE_MOST],
        "message": cut_bytes(escape(notice.body.replace("\n", " | ")) or "open hive to see it",
                             MESSAGE_BYTES),
        "priority": _SETTLED_PRIORITY if settled else _PRIORITIES[notice.notice_class],
        "tags": ["ballot_box_with_check" if settled else _TAGS[notice.notice_class]],
        "sequence_id": sequence_id(notice.key),
    }  # fmt: skip
    page = item_address(notice, dashboard)
    opens = [NoticeLink(label="Open", url=page)] if page else []
    if page:
        message["click"] = page
    message["actions"] = [
        {"action": "view", "label": link.label, "url": link.url}
        for link in (*opens, *notice.links)[:ACTIONS_MOST]
    ]
    return message


def cut_bytes(text: str, most: int) -> str:
    """The beginning of the text in so many bytes of UTF-8."""
    data = text.encode()
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + "…"


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Posts signed JSON. The id is that of the delivery, so a receiver knows a repeated one.

    `dashboard`: the address of its first page; empty: none.
    """

    route: NotifyRoute
    client: httpx2.AsyncClient
    key: bytes
    dashboard: str = ""

    async def send(self, delivery: NoticeDelivery) -> DeliveryOutcome:
        body = webhook_body(delivery.notice, delivery.created, self.dashboard)
        headers = sign_webhook(self.key, delivery.id, int(time.time()), body)
        return await _post(self.client, self.route.url, body, headers)


def sign_webhook(key: bytes, id_: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of Standard Webhooks, signed with HMAC-SHA256."""
    signed = hmac.digest(key, f"{id_}.{timestamp}.".encode() + body, "sha256")
    return {
        "webhook-id": id_, "webhook-timestamp": str(timestamp),
        "webhook-signature": "v1," + base64.b64encode(signed).decode(),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class AppriseSender:
    """Hands notices to apprise, which is installed as an extra."""

    apprise: Any  # has no types

    async def send(self, delivery: NoticeDelivery) -> DeliveryOutcome:
        notice = delivery.notice
        if notice.kind == "settled":  # apprise cannot replace a notice
            return Delivered()
        body = notice.body or notice.title
        sent = await asyncio.to_thread(self.apprise.notify, body=body, title=notice.title)
        return Delivered() if sent else TryLater("apprise could not send it")


def apprise_sender(addresses: str) -> AppriseSender:
    """The addresses of apprise, one a line."""
    try:
        library = importlib.import_module("apprise")
    except ImportError as error:
        reason = "a route of type apprise needs the package apprise beside hive-core"
        raise InvalidArgument(reason, field="type") from error
    receiver = library.Apprise()
    for address in addresses.split():
        if not receiver.add(address):
            raise InvalidArgument("apprise does not know an address of the secret", field="type")
    return AppriseSender(receiver)


async def _post(
    client: httpx2.AsyncClient, url: str, body: bytes, headers: Mapping[str, str]
) -> DeliveryOutcome:
    """No redirect is followed: the secret is for this address alone.

    The status says it all: the text of the answer, which may be of any length, is not read.
    """
    sent = {"Content-Type": "application/json", **headers}
    try:
        async with (
            asyncio.timeout(TIMEOUT),
            client.stream("POST", url, content=body, headers=sent, timeout=TIMEOUT,
                          follow_redirects=False) as response,
        ):  # fmt: skip
            after = retry_after(response.headers.get("retry-after"), time.time())
            return outcome_of_status(response.status_code, after)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return TryLater(f"{type(error).__name__}: {error}")


def outcome_of_status(status: int, after: float) -> DeliveryOutcome:
    """What a status says of a delivery; `after` is what Retry-After says."""
    reason = f"the receiver answered with {status}"
    if status < _FIRST_REDIRECT:
        return Delivered()
    if status in _WRONG_SECRET:  # the operator may mend it within a day
        return TryLater(f"{reason}: check the secret of the route", 60.0)
    if status in _TEMPORARY or status >= _SERVER_FAULT:
        return TryLater(reason, after)
    return Rejected(reason)
