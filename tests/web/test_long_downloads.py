"""A download lasts as long as its browser takes it."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from fixtures.dashboard import FakeBrowser, RunningDashboard

from hive_core.web.connection import WebServer

Message = dict[str, Any]


@dataclass
class CountedConnection:
    renewed: int = 0

    def renew(self) -> None:
        self.renewed += 1


def test_each_part_of_an_artifact_that_is_taken_gives_its_connection_more_time(
    browser: FakeBrowser, web: RunningDashboard
) -> None:
    data = bytes(500 * 1024)  # more than one part
    reply = web.hived.call(
        "carl", "store_artifact", name="x/big", data=base64.b64encode(data).decode()
    )
    connection, sent = CountedConnection(), list[MutableMapping[str, Any]]()

    async def receive() -> Message:
        return await asyncio.Future()  # the browser stays

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = {"host": f"localhost:{web.port}", "cookie": browser.cookie}
    scope = {
        "type": "http", "method": "GET", "path": f"/more/artifacts/{reply['id']}",
        "query_string": b"", "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "state": {"connection": connection},
    }  # fmt: skip
    asyncio.run_coroutine_threadsafe(web.app(scope, receive, send), web.loop).result(30)
    parts = [message.get("body", b"") for message in sent[1:]]
    assert b"".join(parts) == data
    assert connection.renewed == len(list(filter(None, parts))) > 1


def test_a_connection_that_is_renewed_ends_later() -> None:
    ends = list[float]()

    async def app(scope: Message, _receive: object, send: Any) -> None:  # noqa: ANN401 - as ASGI
        connection = scope["state"]["connection"]
        ends.append(connection._end.when())
        connection.renew()
        ends.append(connection._end.when())
        connection.keep_open()
        connection.renew()
        assert connection._end.cancelled(), "one that is kept open has no end"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"whole"})

    async def talk() -> bytes:
        listening = socket.create_server(("127.0.0.1", 0))
        server = WebServer(app)
        await server.listen([listening])
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = await reader.read()
        writer.close()
        server.close()
        return answer

    assert b"whole" in asyncio.run(talk())
    assert ends[0] < ends[1]
