"""Many connections that ask without end, in a process of its own: reads a plan as JSON on stdin.

The plan is [[frame, ...], [[path of the socket, [number of a frame, ...]], ...]]: the frames, each
once and in base64 without its NUL, and the connections. Each connection has one call under way, and
takes its frames in turn. It ends when stdin does, and then says how many answers there were.
"""

from __future__ import annotations

import base64
import json
import selectors
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

from fuzz.served import ROOT

Plan = Sequence[tuple[Path, Sequence[bytes]]]


class LoadConnection:
    """One connection, which is opened again when it is closed."""

    def __init__(self, path: str, frames: list[bytes]) -> None:
        self._path, self._frames = path, cycle(frames)
        self._rest = memoryview(b"")
        self.answers = 0
        self.socket = socket.socket(socket.AF_UNIX)

    def dial(self, ready: selectors.BaseSelector) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(self._path)
        self.socket.settimeout(0)
        self._rest = memoryview(next(self._frames) + b"\0")
        ready.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def serve(self, ready: selectors.BaseSelector, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._write(ready)
            if events & selectors.EVENT_READ:
                self._read(ready)
        except BlockingIOError:
            return
        except OSError:
            ready.unregister(self.socket)
            self.socket.close()
            self.dial(ready)

    def _write(self, ready: selectors.BaseSelector) -> None:
        self._rest = self._rest[self.socket.send(self._rest) :]
        if not self._rest:
            ready.modify(self.socket, selectors.EVENT_READ, self)

    def _read(self, ready: selectors.BaseSelector) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionResetError
        if data.endswith(b"\0"):
            self.answers += 1
            self._rest = memoryview(next(self._frames) + b"\0")
            ready.modify(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main() -> None:
    words, connections = json.loads(sys.stdin.readline())
    frames = [base64.b64decode(word) for word in words]
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    askers = [
        LoadConnection(path, [frames[number] for number in numbers])
        for path, numbers in connections
    ]
    with selectors.DefaultSelector() as ready:
        for asker in askers:
            asker.dial(ready)
        _say("ready")
        while not over.is_set():
            for key, events in ready.select(0.1):
                key.data.serve(ready, events)
    _say(str(sum(asker.answers for asker in askers)))


def _encode(plan: Plan) -> str:
    """The plan as JSON. Many connections send the same frames, of up to 1 MiB each."""
    numbers = {frame: number for number, frame in enumerate(
        dict.fromkeys(frame for _, frames in plan for frame in frames)
    )}  # fmt: skip
    return json.dumps(
        [
            [base64.b64encode(frame).decode() for frame in numbers],
            [[str(path), [numbers[frame] for frame in frames]] for path, frames in plan],
        ]
    )


class LoadProcess:
    """The load process, started with a plan."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.answers = 0

    def end(self) -> None:
        out, _ = self._process.communicate()
        with suppress(ValueError, IndexError):
            self.answers = int(out.split()[-1])


@contextmanager
def run_load(plan: Plan) -> Iterator[LoadProcess]:
    """All of these ask while this lasts."""
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        [sys.executable, "-m", "security.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    load = LoadProcess(process)
    try:
        process.stdin.write(_encode(plan) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        yield load
        load.end()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
