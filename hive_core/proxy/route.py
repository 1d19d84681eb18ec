"""Which request is what: exact paths, and which wire a client speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hive_core.model.config.models import Wire
from hive_core.proxy.failure import CallFailed
from hive_core.proxy.wires.base import WireFormat
from hive_core.proxy.wires.chat import ChatWire
from hive_core.proxy.wires.messages import MessagesWire
from hive_core.proxy.wires.responses import ResponsesWire

WIRES: Final[Mapping[Wire, WireFormat]] = {
    wire.wire: wire for wire in (ChatWire(), ResponsesWire(), MessagesWire())
}
Headers = list[tuple[bytes, bytes]]
# What is passed on to a provider, and what is passed back; all else stays here.
_TO_PROVIDER: Final = frozenset({
    b"accept", b"content-type", b"anthropic-version", b"anthropic-beta", b"openai-beta",
    b"idempotency-key",
})  # fmt: skip
_TO_CLIENT: Final = frozenset({
    b"content-type", b"request-id", b"x-request-id", b"retry-after", b"x-should-retry",
})  # fmt: skip
TASK_HEADER: Final = b"x-hive-task"
HAND_BACK_HEADER: Final = b"x-hive-hand-back"
_TASK_MOST: Final = 64
_BETA_QUERY: Final = b"beta=true"


class Purpose(Enum):
    CALL = "call"
    COUNT = "count"
    LIST = "list"
    PROBE = "probe"


@dataclass(frozen=True, slots=True)
class ModelRoute:
    purpose: Purpose
    wire: WireFormat
    suffix: str = ""  # of the provider's path
    query: bytes = b""


_ROUTES: Final = {
    ("HEAD", b"/"): (Purpose.PROBE, Wire.CHAT, ""),
    ("GET", b"/v1/models"): (Purpose.LIST, Wire.CHAT, ""),
    ("POST", b"/v1/chat/completions"): (Purpose.CALL, Wire.CHAT, ""),
    ("POST", b"/v1/responses"): (Purpose.CALL, Wire.RESPONSES, ""),
    ("POST", b"/v1/messages"): (Purpose.CALL, Wire.MESSAGES, ""),
    ("POST", b"/v1/messages/count_tokens"): (Purpose.COUNT, Wire.MESSAGES, "/count_tokens"),
}


def find_route(method: str, path: bytes, query: bytes) -> ModelRoute:
    """The route of a request. The path is compared as it was sent. CallFailed: 404."""
    route = _ROUTES.get((method, path))
    if route is None:
        there = ", ".join(f"{method} {path.decode()}" for method, path in _ROUTES)
        raise CallFailed(404, f"this path does not exist here; the paths are {there}")
    purpose, wire, suffix = route
    return ModelRoute(purpose, WIRES[wire], suffix, query if query == _BETA_QUERY else b"")


def wire_of_path(path: bytes) -> WireFormat:
    """The wire in which a client of this path reads an error."""
    if path.startswith(b"/v1/messages"):
        return WIRES[Wire.MESSAGES]
    return WIRES[Wire.RESPONSES if path.startswith(b"/v1/responses") else Wire.CHAT]


def provider_headers(headers: Headers) -> Headers:
    return [(name, value) for name, value in headers if name in _TO_PROVIDER]


def client_headers(headers: Headers) -> Headers:
    return [(name.lower(), value) for name, value in headers if name.lower() in _TO_CLIENT]


def task_of(headers: Headers) -> str:
    """The task that a call is for, as the client names it; empty where it names none."""
    for name, value in headers:
        if name == TASK_HEADER:
            return value.decode("ascii", "replace")[:_TASK_MOST]
    return ""


def asks_hand_back(headers: Headers) -> bool:
    """Whether the answer is to be the report of a task whose budget is used up."""
    return any(name == HAND_BACK_HEADER for name, _ in headers)
