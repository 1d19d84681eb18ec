"""hive-web ends when it is idle, and nobody who comes in that moment is cut off."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from fixtures.dashboard import free_socket, origin_of, read_answer

from hive_core.web.connection import WebServer
from hive_core.web.main import build, serve, time_left
from hive_core.web.settings import WebTable


def test_who_comes_as_it_ends_is_answered(tmp_path: Path) -> None:
    """It accepts at the first socket while it begins to listen at the second, and then ends."""
    first, second = free_socket(), free_socket()
    app = build(tmp_path / "login.sock", WebTable((origin_of(first),)))
    host = origin_of(first).partition("://")[2]
    with socket.create_connection(first.getsockname(), timeout=20) as client:
        client.sendall(f"GET /login HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        asyncio.run(serve(app, [first, second], idle=0.0))
        assert read_answer(client).status == 200


def test_a_connection_that_is_open_keeps_it_from_ending(tmp_path: Path) -> None:
    async def main() -> None:
        listening = free_socket()
        app = build(tmp_path / "login.sock", WebTable((origin_of(listening),)))
        app.used = app.clock() - 1000
        server = WebServer(app)
        assert time_left(app, server, 900) < 0
        await server.listen([listening])
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        for _ in range(10):  # turns in which it accepts
            await asyncio.sleep(0)
        assert time_left(app, server, 900) == 900
        async with asyncio.timeout(20):
            writer.close()
            await server.drain()
        assert await reader.read() == b""
        assert time_left(app, server, 900) < 0

    asyncio.run(main())
