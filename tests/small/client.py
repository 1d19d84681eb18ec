"""A client of hive-small: one HTTP call over its Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

CHAT = "/v1/chat/completions"


class SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("hive-small", timeout=60)
        self._path = str(path)

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON is anything
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def events(self) -> list[Any]:
        """The events of a stream; the mark of its end is a text."""
        lines = [line for line in self.body.decode().split("\n\n") if line]
        assert all(line.startswith("data: ") for line in lines)
        texts = [line.removeprefix("data: ") for line in lines]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]

    @property
    def text(self) -> str:
        deltas = [event["choices"][0]["delta"] for event in self.events[:-1] if event["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)


def call(path: Path, body: object = None, to: str = CHAT) -> Answer:
    connection = SocketConnection(path)
    try:
        if body is None:
            connection.request("GET", to)
        else:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", to, data)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, response.read())
    finally:
        connection.close()


def question(text: str = "hello", **fields: object) -> dict[str, object]:
    return {"model": "small", "messages": [{"role": "user", "content": text}], **fields}
