"""The other end of a client's socket: answers methods from a table and remembers what was asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hive_core.errors import HiveError
from hive_core.varlink import FrameReader, Message, decode, encode

PREFIX = "org.hive.Broker."
Answer = Callable[[Message], Message | list[Message]]


class FakeBroker:
    """One thread per connection; a method without an answer hangs up."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, Message]] = []
        self.heard = threading.Condition()
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []

    def start(self) -> None:
        Path(self.path).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """Hang up on everyone, as a daemon that dies does."""
        assert self._listener is not None
        for connection in (self._listener, *self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def params_of(self, method: str) -> list[Message]:
        return [params for name, params in self.calls if name == method]

    def wait_for(self, method: str, times: int = 1) -> list[Message]:
        """The parameters of the first calls of a method, once there are so many."""
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.params_of(method)) >= times, 10), self.calls
        return self.params_of(method)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection = listener.accept()[0]
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader()
        with suppress(OSError, KeyError):
            while data := connection.recv(65536):
                for frame in reader.feed(data):
                    self._answer(connection, decode(frame))
        connection.close()

    def _answer(self, connection: socket.socket, call: Message) -> None:
        method = str(call["method"]).removeprefix(PREFIX)
        params = call.get("parameters", {})
        assert isinstance(params, dict)
        with self.heard:
            self.calls.append((method, params))
            self.heard.notify_all()
        try:
            answer = self.answers[method](params)
        except HiveError as error:
            connection.sendall(encode({"error": error.wire, "parameters": error.parameters}))
            return
        pages = answer if isinstance(answer, list) else [answer]
        for number, page in enumerate(pages, 1):
            more = {"continues": True} if number < len(pages) else {}
            connection.sendall(encode({"parameters": page, **more}))


@contextmanager
def fake_broker(path: Path) -> Iterator[FakeBroker]:
    made = FakeBroker(path)
    made.start()
    try:
        yield made
    finally:
        made.stop()
