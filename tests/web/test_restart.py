"""hive-web as the program that it is: started by a socket, restarted under an open page, idle."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from fixtures.chromium import Browser
from fixtures.dashboard import free_socket, origin_of
from fixtures.login_server import LoginServer, login_server
from fixtures.world import rows

from hive_core.model.config.settings import Settings
from hive_core.model.config.web import WebSettings
from hive_core.web.main import build, serve
from hive_core.web.settings import WebTable

_START = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'


@dataclass
class WebProcess:
    """The program, at a socket that outlives it as that of systemd does."""

    hived: LoginServer
    listening: socket.socket
    folder: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self, idle: float = 900.0) -> None:
        config = self.folder / "hive.toml"
        config.write_text(f'[web]\norigins = ["{origin_of(self.listening)}"]\n')
        command = (sys.executable, "-m", "hive_core.web.main", "--login", str(self.hived.path),
                   "--config", str(config), "--idle", str(idle))  # fmt: skip
        # The first descriptor that systemd passes is 3, whatever it is here.
        script = f"exec 3<&{self.listening.fileno()}; {_START}"
        self.process = subprocess.Popen(
            ("/bin/bash", "-c", script, "hive-web", *command), pass_fds=[self.listening.fileno()]
        )

    def restart(self) -> None:
        self.stop()
        self.start()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def web() -> Iterator[WebProcess]:
    listening = free_socket()
    settings = Settings(web=WebSettings(origins=(origin_of(listening),)))
    with (
        listening,
        TemporaryDirectory() as folder,
        login_server(Path(folder), "root/lead", "root/carl:worker", settings=settings) as hived,
    ):
        made = WebProcess(hived, listening, Path(folder))
        yield made
        made.stop()


@contextmanager
def opened_page(blank_tab: Browser, web: WebProcess, path: str) -> Iterator[Browser]:
    """The tab logs in and shows a page, until that asks for nothing more."""
    blank_tab.open(f"{origin_of(web.listening)}/login#{web.hived.link()}")
    blank_tab.until("location.pathname !== '/login' && document.readyState === 'complete'")
    blank_tab.open(origin_of(web.listening) + path)
    yield blank_tab
    blank_tab.open("about:blank")


def test_an_open_page_goes_on_after_both_daemons_were_restarted(
    blank_tab: Browser, web: WebProcess
) -> None:
    """Nothing is lost and nothing is there twice, and nobody logs in or loads a page again."""
    web.start()
    with opened_page(blank_tab, web, "/audit") as chrome:
        for daemon in ("hived", "hive-web", "both"):
            before = chrome.run("return document.querySelector('#audit .item').id")
            if daemon != "hived":
                web.stop()
            if daemon != "hive-web":
                web.hived.restart_hived()
            title = f"after {daemon}"
            web.hived.call("operator", "send", to="lead", body=title)
            if daemon != "hived":
                web.start()
            (event,) = rows(web.hived.call("operator", "list_events", last=1)["events"])
            chrome.until("document.querySelector('#audit .item')?.id !== arguments[0]", before)
            shown = chrome.until(
                "document.getElementById(arguments[0])"
                " && [...document.querySelectorAll('#audit > li')].map((row) => row.id)",
                f"e-{event['seq']}",
            )
            assert len(set(shown)) == len(shown)
            assert before in shown
            assert shown == sorted(shown, key=lambda id_: -int(id_[2:]))
        assert chrome.run("return location.pathname") == "/audit"
    assert web.stop() == 0


def test_an_open_page_goes_on_after_its_stream_was_refused(
    blank_tab: Browser, web: WebProcess
) -> None:
    """hived is away when the page opens its stream again, so that it is answered with a fault."""
    web.start()
    with opened_page(blank_tab, web, "/audit") as chrome:
        away = web.hived.path.rename(web.folder / "away")
        web.hived.cut_connections()
        web.restart()
        chrome.until("document.getElementById('banner').textContent.startsWith('No news')")
        away.rename(web.hived.path)
        web.hived.call("operator", "send", to="lead", body="after a refusal")
        (event,) = rows(web.hived.call("operator", "list_events", last=1)["events"])
        chrome.until("document.getElementById(arguments[0])", f"e-{event['seq']}")
        assert chrome.run("return document.getElementById('banner').textContent") == ""
    assert web.stop() == 0


def test_it_ends_when_it_is_idle_and_the_socket_starts_it_again(web: WebProcess) -> None:
    web.start(idle=0.1)
    assert web.process.wait(60) == 0

    with socket.create_connection(web.listening.getsockname(), timeout=60) as waiting:
        host = origin_of(web.listening).partition("://")[2]
        waiting.sendall(f"GET /login HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        web.start(idle=0.1)
        assert waiting.recv(64).startswith(b"HTTP/1.1 200")
    assert web.process.wait(60) == 0


def test_a_slow_start_is_no_idleness(tmp_path: Path) -> None:
    """The request that started it is answered."""
    listening = free_socket()
    origin = origin_of(listening)
    app = build(tmp_path / "login.sock", WebTable((origin,)))
    app.used -= 3600.0
    with socket.create_connection(listening.getsockname(), timeout=60) as waiting:
        host = origin.partition("://")[2]
        waiting.sendall(f"GET /login HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        asyncio.run(serve(app, [listening], 0.1))
        assert waiting.recv(64).startswith(b"HTTP/1.1 200")


def test_without_a_socket_it_says_so(web: WebProcess) -> None:
    done = subprocess.run(
        (sys.executable, "-m", "hive_core.web.main", "--login", str(web.hived.path)),
        env={key: value for key, value in os.environ.items() if not key.startswith("LISTEN_")},
        capture_output=True, check=False,
    )  # fmt: skip

    assert done.returncode == 78
    assert b"hive-web.socket starts this program" in done.stderr
