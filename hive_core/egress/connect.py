"""The head of an HTTP CONNECT, read as it arrives. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from hive_core.model.wire.egress import EgressTarget, parse_target

HEAD_MOST: Final = 8192
_END: Final = b"\r\n\r\n"
_REQUEST: Final = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]{1,2000}) HTTP/1\.[01]", re.ASCII)
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}):[\t\x20-\x7e\x80-\xff]*")
# A CONNECT has no body: what follows its head is for the target.
_OF_A_BODY: Final = frozenset({b"content-length", b"transfer-encoding"})
_SHOWN: Final = 80


class ConnectRefused(Exception):
    """An answer other than 200. `rule` is what the log has of it."""

    def __init__(self, status: HTTPStatus, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.rule = status, reason, rule

    @property
    def response(self) -> bytes:
        body = f"hive-egress: {self.reason}\n".encode("ascii", "replace")
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            "Content-Type: text/plain; charset=us-ascii",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        if self.status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: CONNECT")
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


@dataclass(slots=True)
class HeadReader:
    """Collects the bytes of a connection until the head is there; `rest` is what follows it."""

    rest: bytes = b""
    _head: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> EgressTarget | None:
        """The target, once the head is complete. ConnectRefused: it is not what is served."""
        # The end may lie across two reads; what was searched before is not searched again.
        start = max(0, len(self._head) - len(_END) + 1)
        self._head += data
        end = self._head.find(_END, start)
        if end > HEAD_MOST or (end < 0 and len(self._head) > HEAD_MOST):
            raise ConnectRefused(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the head has more than {HEAD_MOST} bytes",
            )
        if end < 0:
            return None
        self.rest = bytes(self._head[end + len(_END) :])
        return parse_head(bytes(self._head[:end]))


def parse_head(head: bytes) -> EgressTarget:
    """Parse the target of a CONNECT head. ConnectRefused names the fault."""
    first, *headers = head.split(b"\r\n")
    request = _REQUEST.fullmatch(first)
    if request is None:
        raise _bad_request("the request line is not `CONNECT HOST:PORT HTTP/1.1`")
    if request[1] != b"CONNECT":
        raise ConnectRefused(
            HTTPStatus.METHOD_NOT_ALLOWED, "only CONNECT is served; use https, or a tunnel"
        )
    for line in headers:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _bad_request(f"{line[:_SHOWN].decode('latin-1')!a} is not a header")
        if header[1].lower() in _OF_A_BODY:
            raise _bad_request("a CONNECT has no body")
    try:
        return parse_target(request[2].decode("ascii"))
    except ValueError as error:
        raise _bad_request(str(error)) from error


def _bad_request(reason: str) -> ConnectRefused:
    return ConnectRefused(HTTPStatus.BAD_REQUEST, reason, "malformed")
