"""A provider of models that counts what it answers: `session_provider.py PORT FILE`.

Its answers depend on the conversation alone, and each has calls of its own, so that an answer which
is asked for twice shows. Every request has its number as its count of input tokens. The file has
one JSON object a line: each request as it begins, and how its answer ended.
"""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, TextIO

OUT = 7  # tokens of every answer
EVENT_PAUSE = 0.02
BREAKS = 0.04  # share of the answers that break in the middle
REFUSALS = 0.04  # share of the requests that are answered with 503

Row = dict[str, Any]


class Provider(ThreadingHTTPServer):
    """Numbers the requests, and writes down what came of each."""

    daemon_threads = True
    address_family = socket.AF_INET

    def __init__(self, port: int, file: TextIO) -> None:
        self._file = file
        self._numbers = count(1)
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def begin(self) -> int:
        with self._lock:
            number = next(self._numbers)
        self.note(number, "begun")
        return number

    def note(self, number: int, outcome: str) -> None:
        line = json.dumps({"number": number, "outcome": outcome, "tokens": [number, OUT]})
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number = self.server.begin()
        chance = random.random()  # noqa: S311 - no secret
        try:
            if chance < REFUSALS:
                self._refuse()
                self.server.note(number, "refused")
                return
            pieces = list(answer_events(number, body))
            cut = chance < REFUSALS + BREAKS
            self._stream(pieces[: len(pieces) // 2] if cut else pieces)
            self.server.note(number, "cut" if cut else "whole")
        except OSError:
            self.server.note(number, "gone")

    def _refuse(self) -> None:
        self.send_response(503)
        self.send_header("content-length", "0")
        self.end_headers()

    def _stream(self, pieces: list[bytes]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            time.sleep(EVENT_PAUSE)
        self.close_connection = True


def answer_events(number: int, body: Row) -> Iterator[bytes]:
    """The events of the answer, in the form of chat completions."""
    text, call = next_answer(f"n{number}", body["messages"])
    base = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "load"}

    def event(delta: Row, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({**base, "choices": [choice]}).encode() + b"\n\n"

    yield event({"role": "assistant", "content": ""})
    for word in text.split():
        yield event({"content": f"{word} "})
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        row = {"index": 0, "id": f"n{number}", "type": "function", "function": function}
        yield event({"tool_calls": [row]})
    yield event({}, "stop" if call is None else "tool_calls")
    usage = {"prompt_tokens": number, "completion_tokens": OUT, "total_tokens": number + OUT}
    yield b"data: " + json.dumps({**base, "choices": [], "usage": usage}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def next_answer(mark: str, messages: list[Row]) -> tuple[str, tuple[str, Row] | None]:
    """Text, and a call, of a model that looks at its history.

    A task `Make 3 runs` has three calls of bash or send, each with the mark of its answer; then the
    report. Everything else is answered with a text.
    """
    asked = " ".join(str(row["content"]) for row in messages if row["role"] == "user")
    work = re.search(r"Make (\d+) (runs|sends)", asked)
    if work is None:
        return f"{mark} has read it", None
    names = [call["function"]["name"] for row in messages for call in row.get("tool_calls") or []]
    if names[-1:] == ["finish_task"]:
        return f"{mark} has reported it", None
    calls: dict[str, tuple[str, Row]] = {
        "runs": ("bash", {"command": f"echo {mark} >> runs.txt; sleep 0.3"}),
        "sends": ("send", {"to": "root", "body": f"mark {mark}"}),
    }
    report = ("finish_task", {"status": "success", "summary": f"{mark} reports"})
    return "", report if len(names) >= int(work[1]) else calls[work[2]]


def main() -> None:
    port, file = sys.argv[1:]
    with Path(file).open("a", encoding="utf-8") as log, Provider(int(port), log) as provider:
        provider.serve_forever()


if __name__ == "__main__":
    main()
