"""A hive that takes webhooks, and somebody outside who calls them."""

from __future__ import annotations

import asyncio
import grp
import hmac
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from operations.test_triggers import SAY, put
from operations.world import World, world

from hive_core.host.sockets.webhooks import WebhookServer

GROUP = grp.getgrgid(os.getgid()).gr_name
SECRET = "a secret of the sender's"  # noqa: S105 - of this test


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class WebhookHost:
    """A hive that takes webhooks, and somebody outside."""

    hive: World
    path: Path

    def raw(self, data: bytes) -> bytes:
        """All that comes back until the connection is closed."""

        async def talk() -> bytes:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_unix_connection(str(self.path))
                writer.write(data)
                reply = await reader.read()
                writer.close()
                return reply

        reply = self.hive.loop.run_until_complete(talk())
        self.hive.run()
        return reply

    def ask(
        self, path: str, body: bytes = b"{}", *, method: str = "POST",
        headers: Mapping[str, str] | None = None, **more: str,
    ) -> Answer:  # fmt: skip
        head = {"host": "x", "connection": "close", "content-length": str(len(body)), **more,
                **(headers or {})}  # fmt: skip
        lines = [f"{method} {path} HTTP/1.1", *(f"{k.replace('_', '-')}: {v}"
                                                 for k, v in head.items())]  # fmt: skip
        reply = self.raw("\r\n".join([*lines, "", ""]).encode() + body)
        top, _, rest = reply.partition(b"\r\n\r\n")
        first, *others = top.decode().split("\r\n")
        answered = dict(header.lower().split(": ", 1) for header in others)
        return Answer(int(first.split()[1]), answered, rest)

    def send_signed(
        self, path: str, body: bytes = b"{}", *, secret: str = SECRET, method: str = "POST",
        **more: str,
    ) -> Answer:  # fmt: skip
        headers = {"hive_signature": sign(body, secret), **more}
        return self.ask(path, body, method=method, headers=headers)


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, "sha256").hexdigest()


def hooks_of(hive: World, life: float = 30.0) -> WebhookServer:
    parts = hive.ledger, hive.broker.perform, hive.vault
    return WebhookServer(*parts, lambda: hive.hive, hive.clock.now, life)


@pytest.fixture(name="street")
def _street(tmp_path: Path) -> Iterator[WebhookHost]:
    with world(None, "root/a", "a/a1:worker") as hive:
        hooks = hooks_of(hive)
        path = tmp_path / "hooks.sock"
        hive.loop.run_until_complete(hooks.listen(path, GROUP))
        yield WebhookHost(hive, path)
        hooks.close()


def hook(street: WebhookHost, /, **more: object) -> str:
    """The path of a new one."""
    when = {"webhook": {"secret": SECRET}}
    return str(put(street.hive, **{"when": when, "action": SAY, **more})["path"])


def signed_headers(
    path: str, time: float, body: bytes = b"{}", method: str = "POST", key: str = ""
) -> dict[str, str]:
    """Headers of a request that is signed with all that decides what it does."""
    text = f"hive-v1\n{method}\n{path}\n{int(time)}\n{key}\n".encode() + body
    mark = "v1=" + hmac.new(SECRET.encode(), text, "sha256").hexdigest()
    headers_ = {"hive_signature": mark, "hive_timestamp": str(int(time))}
    return {**headers_, "idempotency_key": key} if key else headers_
