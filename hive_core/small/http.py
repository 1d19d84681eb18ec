"""One HTTP call on one connection: the chat interface, a list of models, and a health check.

A connection is closed after its call, so an idle connection keeps no process alive.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Final, Protocol

from hive_core.small.engine import ChatEngine, Chunk
from hive_core.small.request import BODY_MOST, ChatRefusal, ChatRequest, parse_chat

CHAT: Final = "/v1/chat/completions"
NAME: Final = "hive-small"
_PATIENCE: Final = 30.0  # seconds for a client to send its request, or to take a part
_LOG: Final = logging.getLogger(__name__)


class ChatHost(Protocol):
    """What a call needs of the server."""

    engine: ChatEngine
    seconds: float  # for one answer
    slots: threading.BoundedSemaphore  # calls that may wait for the engine


class ChatCall(BaseHTTPRequestHandler):
    """Serves one connection; the constructor returns when the call has ended."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    def __init__(self, connection: socket.socket, host: ChatHost) -> None:
        self._host = host
        self._is_streaming = False
        # A Unix socket has no address, and the parent only logs what it gets here.
        super().__init__(connection, ("", 0), None)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, {"status": "ok"})
        elif self.path == "/v1/models":
            entry = {"id": NAME, "object": "model", "context": self._host.engine.context}
            self._send(200, {"object": "list", "data": [entry]})
        else:
            self._refuse(self._no_such_path())

    def do_POST(self) -> None:
        try:
            self._chat()
        except ChatRefusal as refusal:
            self._refuse(refusal)

    def _no_such_path(self) -> ChatRefusal:
        return ChatRefusal(404, "not_found", f"no such path: {self.path[:200]}")

    def _chat(self) -> None:
        data = self._read_body()  # first: a client that still writes would not read the answer
        if self.path != CHAT:
            raise self._no_such_path()
        request = parse_chat(data, self._host.engine.context)
        if not self._host.slots.acquire(blocking=False):
            raise ChatRefusal(503, "server_overloaded", "too many calls at once")
        try:
            self._answer(request)
        finally:
            self._host.slots.release()

    def _answer(self, request: ChatRequest) -> None:
        if request.stream:
            self._stream(request)
        else:
            self._send(200, _public(self._host.engine.complete(request.fields), request.model))

    def _read_body(self) -> bytes:
        text = self.headers.get("content-length", "")
        if not text.isascii() or not text.isdigit():
            raise ChatRefusal(411, "invalid_request_error", "content-length is missing")
        length = int(text[:20])
        if length > BODY_MOST:
            reason = f"the body is larger than {BODY_MOST} bytes"
            raise ChatRefusal(413, "invalid_request_error", reason)
        data = self.rfile.read(length)
        if len(data) < length:
            raise ChatRefusal(400, "invalid_request_error", "the body is incomplete")
        return data

    def _stream(self, request: ChatRequest) -> None:
        until = time.monotonic() + self._host.seconds

        def take(chunk: Chunk) -> bool:
            if time.monotonic() > until:
                reason = f"the answer took longer than {self._host.seconds:g} seconds"
                raise ChatRefusal(504, "server_error", reason)
            # The first part decides the status, so a refused request has one of its own.
            if not self._is_streaming:
                self._begin_stream()
            self._send_event(_public(chunk, request.model))
            return False

        self._host.engine.stream(request.fields, take)
        if not self._is_streaming:
            self._begin_stream()
        self._send_part(b"data: [DONE]\n\n")
        self._send_part(b"")

    def _begin_stream(self) -> None:
        self._is_streaming = True
        self._head(200, "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _send_event(self, value: Chunk) -> None:
        self._send_part(b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n")

    def _send_part(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _refuse(self, refusal: ChatRefusal) -> None:
        """Send an error; after the first part it is the last event of the stream."""
        _LOG.info("refused with %d: %s", refusal.status, refusal.reason)
        if self._is_streaming:
            self._send_event(refusal.body())
            self._send_part(b"")
        else:
            self._send(refusal.status, refusal.body())

    def _send(self, status: int, value: Chunk) -> None:
        data = json.dumps(value).encode()
        self._head(status, "application/json")
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            self.send_header("retry-after", "5")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.close_connection = True

    def version_string(self) -> str:
        return NAME

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        _LOG.debug(format, *args)


def _public(answer: Chunk, model: str) -> Chunk:
    """The answer with the caller's name for the model, in place of the path of its file."""
    own = {key: value for key, value in answer.items() if key not in ("timings", "model")}
    return {**own, "model": model or NAME}
