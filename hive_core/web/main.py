"""The program `hive-web`: serves the sockets that systemd passes, until it is idle for long."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hive_core.errors import HiveError, InvalidArgument
from hive_core.services.command_line import (
    LOGIN_SOCKET,
    SETTINGS,
    ServiceOption,
    ServiceProgram,
    parse_arguments,
)
from hive_core.services.daemon_connection import DaemonConnection
from hive_core.services.notify import notify
from hive_core.web.api import HttpApi
from hive_core.web.app import WebApp
from hive_core.web.connection import WebServer
from hive_core.web.hub import Hub, Renderers
from hive_core.web.live_rows import agent_cells, event_row
from hive_core.web.logins import Logins
from hive_core.web.reads import SharedReads
from hive_core.web.rendering import Renderer
from hive_core.web.settings import CONFIG, WebTable, load_settings
from hive_core.web.static_files import StaticFiles
from hive_core.web.tokens import TokenLogins
from hive_core.web.visit import Dashboard

log = logging.getLogger(__name__)
IDLE_SECONDS: Final = 900.0
_LISTEN_FD: Final = 3  # the first descriptor that systemd passes
_BAD_CONFIG: Final = 78
_PROGRAM: Final = ServiceProgram("hive-web", "Serve the dashboard.", (
    SETTINGS, LOGIN_SOCKET,
    ServiceOption("idle", "SECONDS", "end after this time without a request", float),
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class WebOptions:
    settings: Path = CONFIG
    socket: Path = Path("/run/hive/login.sock")
    idle: float = IDLE_SECONDS


def build(
    socket_path: Path, settings: WebTable, clock: Callable[[], float] = time.time
) -> WebApp:  # fmt: skip
    """The application, not started. `clock` returns seconds since 1970."""
    files = StaticFiles.load()
    renderer = Renderer.load(files, clock)
    logins = Logins(socket_path, time.monotonic)
    drawn = Renderers(agent_cells, renderer.todo_item, event_row)
    reads = SharedReads(time.monotonic)
    hub = Hub(logins, drawn, reads.forget)
    web = Dashboard(settings, logins, hub, reads, renderer, clock)
    tokens = TokenLogins(lambda: DaemonConnection.open(socket_path), time.monotonic)
    return WebApp(web, files, HttpApi(tokens, lambda: logins.streams, lambda: hub.lag))


def passed_sockets() -> list[socket.socket]:
    """The listening sockets that systemd passed. InvalidArgument: it passed none."""
    count = os.environ.get("LISTEN_FDS", "0")
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal() or count == "0":
        raise InvalidArgument("no socket was passed: hive-web.socket starts this program")
    return [socket.socket(fileno=_LISTEN_FD + at) for at in range(int(count))]


async def serve(app: WebApp, listening: list[socket.socket], idle: float) -> None:
    """Serve until a signal, or until no request has come for `idle` seconds."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = WebServer(app)
    app.web.hub.start()
    await server.listen(listening)
    notify("READY=1\nSTATUS=serving")
    app.used = app.clock()  # a slow start is no idleness: requests may wait in the socket
    while not ended.is_set() and (left := time_left(app, server, idle)) > 0:
        try:
            async with asyncio.timeout(max(left, 1.0)):
                await ended.wait()
        except TimeoutError:
            continue
    notify("STOPPING=1\nSTATUS=stopping")
    if ended.is_set():
        server.close()
    else:  # nobody asked for an end: no request may be lost by it
        await server.drain()
    await app.web.hub.stop()
    app.web.logins.close_all()


def time_left(app: WebApp, server: WebServer, idle: float) -> float:
    """Seconds until it may end, unless there is a request until then.

    One may come on a connection that is open, at any time.
    """
    return idle if server.connections else idle - app.idle_seconds


def parse_options(arguments: Sequence[str]) -> WebOptions:
    return WebOptions(**parse_arguments(_PROGRAM, WebOptions(), arguments))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = parse_options(sys.argv[1:])
    try:
        app = build(options.socket, load_settings(options.settings))
        asyncio.run(serve(app, passed_sockets(), options.idle))
    except HiveError as error:
        sys.stderr.write(f"hive-web: {error}\n")
        sys.exit(_BAD_CONFIG)


if __name__ == "__main__":
    main()
