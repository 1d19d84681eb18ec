"""hive-web as systemd starts it, with a listening socket, before a hived of the benchmarks."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from benchmarks.services import ROOT
from hive_core.varlink import Client

LOGINS_OF_ADDRESS = 5  # a minute
_START = """
import os, sys
os.dup2(int(sys.argv.pop(1)), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
from hive_core.web.main import main
main()
"""


@dataclass
class Dashboard:
    """`port` of 127.0.0.1 is where it is served."""

    pid: int
    port: int
    folder: Path

    def log_in(self, number: int) -> str:
        """The cookie of a further login, from an address of its own for each five."""
        with Client(str(self.folder / "operator.sock")) as client:
            with suppress(Exception):  # it exists
                client.call("org.hive.Broker.CreateAccount", {"name": "ann"})
            url = client.call("org.hive.Broker.CreateLoginLink", {"account": "ann"})["url"]
        body = urlencode({"secret": str(url).partition("#")[2]}).encode()
        with self.connect(number // LOGINS_OF_ADDRESS) as connection:
            connection.sendall(self.request("POST", "/login", body))
            answer = read_all(connection)
        _, _, cookie = answer.partition(b"set-cookie: ")
        if not cookie:
            raise RuntimeError(answer[:300].decode(errors="replace"))
        return cookie.partition(b";")[0].decode()

    def connect(self, address: int = 0) -> socket.socket:
        source = (f"127.0.1.{address + 1}", 0)
        return socket.create_connection(("127.0.0.1", self.port), 30, source_address=source)

    def request(
        self, method: str, path: str, body: bytes = b"", cookie: str = "", after: str = ""
    ) -> bytes:
        """A request of a browser. `after`: the last event that it had of a stream."""
        origin = f"http://localhost:{self.port}"
        lines = [
            f"{method} {path} HTTP/1.1", f"host: localhost:{self.port}", "accept-encoding: gzip",
            "sec-fetch-site: same-origin",
        ]  # fmt: skip
        if cookie:
            lines.append(f"cookie: {cookie}")
        if after:
            lines.append(f"last-event-id: {after}")
        if method == "POST":
            lines += [
                f"origin: {origin}", f"content-length: {len(body)}",
                "content-type: application/x-www-form-urlencoded",
            ]  # fmt: skip
        return "\r\n".join([*lines, "", ""]).encode() + body

    def page(self, path: str, cookie: str) -> tuple[bytes, float]:
        """A page as its compressed bytes, and the seconds that it took.

        ConnectionError: hive-web does not reach hived now.
        """
        start = time.perf_counter()
        with self.connect() as connection:
            connection.sendall(self.request("GET", path, cookie=cookie))
            answer = read_all(connection)
        spent = time.perf_counter() - start
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 503 " in head.split(b"\r\n")[0]:
            raise ConnectionError(body[:300].decode(errors="replace"))
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(f"{head.splitlines()[0]!r} for {path}: {body[:300]!r}")
        return body, spent


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while received := connection.recv(1 << 18):
        data += received
    return data


class DashboardDaemon(Dashboard):
    """hive-web as a process of this one, at a socket that outlives it as that of systemd does."""

    def __init__(self, folder: Path, listening: socket.socket) -> None:
        port = listening.getsockname()[1]
        config = folder / "hive.toml"
        config.write_text(f'[web]\norigins = ["http://localhost:{port}"]\n', encoding="utf-8")
        arguments = ["--socket", str(folder / "login.sock"), "--settings", str(config)]
        self._listening = listening
        self._argv = [sys.executable, "-c", _START, str(listening.fileno()), *arguments]
        self._process = self._start()
        super().__init__(self._process.pid, port, folder)

    def restart(self) -> None:
        """End it as systemd does, and start it again."""
        self._process.terminate()
        self._process.wait()
        self._process = self._start()
        self.pid = self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._argv, pass_fds=[self._listening.fileno()],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip


@contextmanager
def serving_dashboard(folder: Path) -> Iterator[DashboardDaemon]:
    """hive-web before the hived whose sockets are in this folder."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        web = DashboardDaemon(folder, listening)
        try:
            yield web
        finally:
            web.kill()
