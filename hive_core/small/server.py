"""`python -m hive_core.small.server`: serve one model on a Unix socket until it is idle.

systemd owns the socket and starts this program at the first connection. A connection that arrives
while the program ends stays in the queue of the socket, and systemd starts the program again.
"""

from __future__ import annotations

import argparse
import logging
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from hive_core.small.engine import ChatEngine, MissingEngine
from hive_core.small.http import ChatCall
from hive_core.small.settings import BadSettings, EngineSettings, read_settings

MODELS: Final = Path("/etc/hive/models.toml")
IDLE: Final = 300.0  # seconds without a call before the program ends
SECONDS: Final = 600.0  # for one answer
CALLS_MOST: Final = 16  # that wait for the engine, which answers them one by one
_CONNECTIONS_MOST: Final = 64
_IDLE_WITHOUT_MODEL: Final = 5.0
_FIRST_PASSED: Final = 3  # the number of the first descriptor of sd_listen_fds(3)
_LOG: Final = logging.getLogger("hive-small")


class SmallServer:
    """Accepts connections in one thread, and serves each in a thread of its own."""

    def __init__(
        self, listener: socket.socket, engine: ChatEngine, *, idle: float, seconds: float = SECONDS
    ) -> None:
        self.engine, self.seconds = engine, seconds
        self.slots = threading.BoundedSemaphore(CALLS_MOST)
        self._listener, self._idle = listener, idle
        self._ended = threading.Condition()
        self._connections = 0
        self._last_end = time.monotonic()

    def run(self, models: Path | None = None) -> None:
        """Serve until there was no call for `idle` seconds.

        Return earlier if the file `models` is another one at the next connection, which stays for
        the next program.
        """
        before = _version(models)
        while True:
            readable, _, _ = select.select([self._listener], [], [], self._until_idle())
            if not readable:
                if self._until_idle() <= 0:
                    return
            elif _version(models) == before:
                self._accept()
            else:
                with self._ended:
                    self._ended.wait_for(lambda: not self._connections)
                return

    def _until_idle(self) -> float:
        with self._ended:
            if self._connections:
                return self._idle
            return max(0.0, self._last_end + self._idle - time.monotonic())

    def _accept(self) -> None:
        with self._ended:
            self._ended.wait_for(lambda: self._connections < _CONNECTIONS_MOST)
            self._connections += 1
        connection, _ = self._listener.accept()
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            ChatCall(connection, self)
        except OSError as error:
            _LOG.info("the client ended the call: %s", error)
        finally:
            connection.close()
            with self._ended:
                self._connections -= 1
                self._last_end = time.monotonic()
                self._ended.notify_all()


def _version(file: Path | None) -> tuple[int, int] | None:
    try:
        facts = file.stat() if file else None
    except OSError:
        return None
    return (facts.st_ino, facts.st_mtime_ns) if facts else None


def passed_listener() -> socket.socket | None:
    """The socket that systemd passed: sd_listen_fds(3)."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    return socket.socket(fileno=_FIRST_PASSED)


def notify_ready() -> None:
    """Tell systemd that calls are served: sd_notify(3)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.sendto(b"READY=1", address.replace("@", "\0", 1))


def _own_listener(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def _load(options: argparse.Namespace) -> ChatEngine:
    try:
        from hive_core.small.llama import LlamaEngine  # noqa: PLC0415 - of its own environment
    except ModuleNotFoundError as error:
        raise BadSettings(f"{error.name} is not installed in {sys.prefix}") from error
    chosen = {
        key: value
        for key in ("path", "context", "threads")
        if (value := getattr(options, key)) is not None
    }
    settings = EngineSettings() if "path" in chosen else read_settings(options.models)
    return LlamaEngine(replace(settings, **chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hive-small", description="Serve a model of GGUF format.")
    add = parser.add_argument
    add("--gguf", dest="path", type=Path, metavar="PATH",
        help="File of the model; default: that of models.toml, else the embedded one.")  # fmt: skip
    add("--context", type=int, metavar="TOKENS", help="Size of the context.")
    add("--threads", type=int, metavar="N", help="Number of threads.")
    add("--models", type=Path, default=MODELS, metavar="FILE", help=f"Settings; default: {MODELS}.")
    add("--socket", type=Path, metavar="PATH", help="New socket to listen on, without systemd.")
    add("--idle", type=float, default=IDLE, metavar="SECONDS",
        help=f"Time without a call before the program ends; default: {IDLE:g}.")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    listener = _own_listener(options.socket) if options.socket else passed_listener()
    if listener is None:
        parser.error("systemd passed no socket; use --socket PATH")
    began, idle = time.monotonic(), options.idle
    try:
        engine = _load(options)
    except BadSettings as error:
        # Calls are answered with the reason; then the next call tries again.
        engine, idle = MissingEngine(str(error)), min(idle, _IDLE_WITHOUT_MODEL)
        _LOG.error("%s", error)
    else:
        _LOG.info("loaded in %.1f seconds", time.monotonic() - began)
    notify_ready()
    with listener:
        SmallServer(listener, engine, idle=idle).run(options.models)
    return int(isinstance(engine, MissingEngine))


if __name__ == "__main__":
    sys.exit(main())
