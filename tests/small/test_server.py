"""The server of the embedded model over real sockets, with an engine whose answers are known."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue

import pytest
from small.client import CHAT, SocketConnection, call, question

from hive_core.small.engine import Chunk
from hive_core.small.request import BODY_MOST, ChatRefusal
from hive_core.small.server import CALLS_MOST, SmallServer

ROOT = Path(__file__).parents[2]
# Descriptor 3 is the socket.
AS_SYSTEMD = (
    'exec 3<&"$1"; LISTEN_FDS=1 LISTEN_PID=$$'
    ' exec "$2" -m hive_core.small.server --models "$3" --idle 1'
)
_PATIENCE = 60


class WordEngine:
    """Answers with the words of the last message; some words have an effect."""

    context = 4096

    def __init__(self) -> None:
        self.began: SimpleQueue[str] = SimpleQueue()
        self.ended: SimpleQueue[str] = SimpleQueue()
        self.may_go_on = threading.Event()

    def complete(self, fields: Mapping[str, object]) -> Chunk:
        text = " ".join(self._words(fields))
        message = {"role": "assistant", "content": text}
        return {"model": "/secret/path", "timings": {"n": 1}, "choices": [{"message": message}]}

    def stream(self, fields: Mapping[str, object], take: Callable[[Chunk], bool]) -> None:
        for word in self._words(fields):
            chunk: Chunk = {"model": "/secret/path", "choices": [{"delta": {"content": word}}]}
            try:
                is_over = take(chunk)
            except OSError:
                self.ended.put("gone")
                raise
            if is_over:
                self.ended.put("stopped")
                return
        self.ended.put("whole")

    def _words(self, fields: Mapping[str, object]) -> Iterator[str]:
        messages = fields["messages"]
        assert isinstance(messages, list)
        for word in str(messages[-1]["content"]).split():
            self.began.put(word)
            if word == "refuse":
                raise ChatRefusal(400, "invalid_request_error", "no such word")
            if word == "wait":
                assert self.may_go_on.wait(_PATIENCE)
            while word == "endless" and not self.may_go_on.is_set():
                yield word
            yield word


class Running:
    """A server in a thread; `end()` waits until it has ended by itself."""

    def __init__(
        self, folder: Path, *, idle: float = _PATIENCE, seconds: float = _PATIENCE
    ) -> None:
        self.path, self.models = folder / "small.sock", folder / "models.toml"
        self.engine = WordEngine()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self._idle, self._seconds = idle, seconds
        self.start()

    def start(self) -> None:
        server = SmallServer(self.listener, self.engine, idle=self._idle, seconds=self._seconds)
        self._thread = threading.Thread(target=server.run, args=(self.models,))
        self._thread.start()

    def end(self) -> None:
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive()

    def close(self) -> None:
        """Have it end as it does when its settings are others."""
        self.engine.may_go_on.set()
        while self._thread.is_alive():
            self.models.write_text("")
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.path))
                self._thread.join(0.2)
        self.listener.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path)
    yield server
    server.close()


def test_an_answer_comes_whole_under_the_name_that_the_caller_used(running: Running) -> None:
    answer = call(running.path, question("one two"))
    assert answer.status == 200
    assert answer.json["choices"][0]["message"]["content"] == "one two"
    assert answer.json["model"] == "small"
    assert "timings" not in answer.json
    assert answer.headers["connection"] == "close"


def test_a_stream_has_every_part_and_a_mark_of_its_end(running: Running) -> None:
    answer = call(running.path, question("one two", stream=True))
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.text == "onetwo"
    assert answer.events[-1] == "[DONE]"
    assert {event["model"] for event in answer.events[:-1]} == {"small"}


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_that_the_engine_refuses_has_a_status_of_its_own(
    running: Running, *, stream: bool
) -> None:
    answer = call(running.path, question("refuse", stream=stream))
    assert (answer.status, answer.reason) == (400, "no such word")


def test_an_error_in_the_middle_is_the_last_event_of_the_stream(running: Running) -> None:
    answer = call(running.path, question("one refuse", stream=True))
    assert answer.status == 200
    assert answer.events[-1]["error"]["message"] == "no such word"


def test_an_answer_without_end_is_cut_by_the_clock(tmp_path: Path) -> None:
    server = Running(tmp_path, seconds=0.2)
    answer = call(server.path, question("endless", stream=True))
    assert "took longer than 0.2 seconds" in answer.events[-1]["error"]["message"]
    server.close()


def test_a_client_that_goes_away_ends_its_answer(running: Running) -> None:
    connection = SocketConnection(running.path)
    connection.request("POST", CHAT, json.dumps(question("endless", stream=True)))
    assert running.engine.began.get(timeout=_PATIENCE) == "endless"
    connection.close()
    assert running.engine.ended.get(timeout=_PATIENCE) == "gone"
    assert call(running.path, question("one")).status == 200


def test_one_call_too_many_is_refused_at_once(running: Running) -> None:
    connections = [SocketConnection(running.path) for _ in range(CALLS_MOST)]
    for connection in connections:
        connection.request("POST", CHAT, json.dumps(question("wait")))
        assert running.engine.began.get(timeout=_PATIENCE) == "wait"
    answer = call(running.path, question())
    assert (answer.status, answer.reason) == (503, "too many calls at once")
    assert answer.headers["retry-after"] == "5"
    running.engine.may_go_on.set()
    for connection in connections:
        response = connection.getresponse()
        response.read()
        connection.close()
        assert response.status == 200


def test_other_paths_and_bodies_are_refused(running: Running) -> None:
    assert call(running.path, None, "/health").json == {"status": "ok"}
    assert call(running.path, None, "/v1/models").json["data"][0]["context"] == 4096
    assert call(running.path, None, "/slots").status == 404
    assert call(running.path, question(), "/v1/embeddings").status == 404
    assert call(running.path, b"{").status == 400
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(running.path))
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 411 ")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(running.path))
        length = BODY_MOST + 1
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_it_ends_when_nobody_called_for_a_while_but_not_in_a_call(tmp_path: Path) -> None:
    server = Running(tmp_path, idle=0.2)
    connection = SocketConnection(server.path)
    connection.request("POST", CHAT, json.dumps(question("wait")))
    assert server.engine.began.get(timeout=_PATIENCE) == "wait"
    server._thread.join(0.5)
    assert server._thread.is_alive()
    server.engine.may_go_on.set()
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200
    server.end()
    server.listener.close()


def test_with_other_settings_it_leaves_the_next_call_to_the_next_program(running: Running) -> None:
    assert call(running.path, question("one")).status == 200
    running.models.write_text("[limits]\n")
    connection = SocketConnection(running.path)
    connection.request("POST", CHAT, json.dumps(question("two")))
    running.end()
    running.start()
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == 200


def test_the_program_says_why_there_is_no_model_and_ends_with_1(tmp_path: Path) -> None:
    """As systemd starts it: the socket listens before the program does."""
    path, notify = tmp_path / "small.sock", tmp_path / "notify"
    with (
        socket.socket(socket.AF_UNIX) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        listener.bind(str(path))
        listener.listen()
        manager.bind(str(notify))
        (tmp_path / "models.toml").write_text('[providers.x]\nkind = "http"\n')
        with subprocess.Popen(
            ["/bin/bash", "-c", AS_SYSTEMD, "sh", str(listener.fileno()), sys.executable,
             str(tmp_path / "models.toml")],
            pass_fds=[listener.fileno()], cwd=ROOT, stderr=subprocess.PIPE,
            env={**os.environ, "NOTIFY_SOCKET": str(notify)},
        ) as process:  # fmt: skip
            answer = call(path, question())
            assert manager.recv(100) == b"READY=1"
            assert process.stderr is not None
            log = process.stderr.read().decode()
        assert answer.status == 503
        assert answer.reason in log
        assert process.returncode == 1
