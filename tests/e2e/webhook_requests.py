"""Requests to the socket of a webhook, signed, malformed and unfinished."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

WAIT = 30.0


def send_bytes(place: Path, data: bytes) -> str:
    """The whole answer; a connection that is reset returns what came before."""
    with socket.socket(socket.AF_UNIX) as talk:
        talk.settimeout(WAIT)
        data_ = b""
        with suppress(ConnectionError):
            talk.connect(str(place))
            talk.sendall(data)
        with suppress(ConnectionError):
            while part := talk.recv(65536):
                data_ += part
        return data_.decode("latin-1")


def status(answer: str) -> int:
    """Of the first answer; 0 when there is none."""
    return int(answer.split(" ", 2)[1]) if answer.startswith("HTTP/1.1 ") else 0


def request(
    path: str, headers: Mapping[str, str], body: bytes = b"{}", method: str = "POST"
) -> bytes:
    said = {"host": "x", "content-length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def github_headers(secret: str, body: bytes = b"{}") -> dict[str, str]:
    """Signed as GitHub does it."""
    mark = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {"x-hub-signature-256": f"sha256={mark}"}


def hive_headers(secret: str, path: str, now: int, method: str = "POST") -> dict[str, str]:
    """Signed with all that decides what a request without a key does, of body `{}`."""
    text = f"hive-v1\n{method}\n{path}\n{now}\n\n{{}}".encode()
    mark = hmac.new(secret.encode(), text, "sha256").hexdigest()
    return {"hive-timestamp": str(now), "hive-signature": f"v1={mark}"}


@contextmanager
def unfinished_requests(place: Path, count: int) -> Iterator[None]:
    """Hold `count` connections, each with a request that never ends."""
    with ExitStack() as held:
        for _ in range(count):
            talk = held.enter_context(socket.socket(socket.AF_UNIX))
            talk.settimeout(WAIT)
            with suppress(OSError):  # the oldest are turned out
                talk.connect(str(place))
                talk.sendall(b"POST /hook")
        yield


def malformed_requests(path: str, secret: str) -> dict[bytes, int]:
    """Malformed requests with the status that each gets; 0: no answer."""
    begin = f"POST {path} HTTP/1.1\r\nhost: x\r\n"
    head = begin + "".join(f"{name}: {value}\r\n" for name, value in github_headers(secret).items())
    chunked = f"{begin}transfer-encoding: chunked\r\n\r\n"
    spelt = [path.replace("/", "//", 1), f"{path}/", f"{path}%00", "/hook/x/..%2f..", "/metrics"]
    spelt += [f"{path[:-1]}%{ord(path[-1]):02x}", path.upper()]
    result = {
        f"{begin}a: {'y' * 200_000}": 400,
        f"{head}idempotency-key: 1\r\nidempotency-key: 2\r\n\r\n": 400,
        f"{head}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}": 400,
        f"{head}content-length: 1\r\n\r\n{{}}": 404,
        f"{begin}content-length: -1\r\n\r\n": 400,
        chunked + "1\r\nx\r\n" * 50_000: 0,
        f"{chunked}z\r\n": 400,
        **{
            f"POST {spelling} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n": 404
            for spelling in spelt
        },
    }
    return {line.encode(): status for line, status in result.items()}


def smuggling_request(path: str, secret: str) -> bytes:
    """Two requests for a parser that trusts one length header, one for a parser of the other."""
    inner = request(path, github_headers(secret))
    mixed = {**github_headers(secret), "content-length": "2", "transfer-encoding": "chunked"}
    return request(path, mixed, b"2\r\n{}\r\n0\r\n\r\n") + inner
