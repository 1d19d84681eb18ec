"""What hive-model needs of a wire: its path, its limits, its usage, its errors and its answers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from hive_core.model.config.models import Wire
from hive_core.proxy.body import RequestBody
from hive_core.proxy.conversation import ModelAnswer, ModelConversation, OfferedTool
from hive_core.proxy.failure import CallFailed, bad_request
from hive_core.proxy.meter import AnswerMeter, list_of, part_of

# What is dearer than the price lists say is not offered.
_TIERS: Final = (None, "auto", "default", "flex", "standard_only")


class WireFormat(ABC):
    wire: ClassVar[Wire]
    path: ClassVar[str]  # below the base URL of a provider
    turns_key: ClassVar[str]
    prefix_keys: ClassVar[tuple[str, ...]]
    output_keys: ClassVar[tuple[str, ...]]  # members that bound the answer, the usual one first
    # Members that are refused, each with the reason.
    refused: ClassVar[Mapping[str, str]]

    def check_body(self, body: RequestBody) -> None:
        """Refuse what would escape the judgement of hived or the metering. CallFailed: 400."""
        for key, reason in self.refused.items():
            if body.value(key) not in (None, False, []):
                raise bad_request(f"`{key}` is not offered: {reason}")
        if body.value("service_tier") not in _TIERS:
            raise bad_request("this `service_tier` is not offered: its price is not metered")
        if not isinstance(body.value("stream"), bool | None):
            raise bad_request("`stream` is neither true nor false")

    @abstractmethod
    def most_out(self, body: RequestBody) -> int | None:
        """How many tokens the answer may have as the request says; None: it does not say."""

    def choices(self, body: RequestBody) -> int:  # noqa: ARG002 - of one wire
        """How many answers the request asks for."""
        return 1

    @abstractmethod
    def meter(self, request_size: int) -> AnswerMeter: ...

    @abstractmethod
    def error_body(self, failure: CallFailed) -> dict[str, Any]: ...

    @abstractmethod
    def error_event(self, failure: CallFailed, sequence: int) -> bytes:
        """The event that ends a stream with an error."""

    @abstractmethod
    def conversation(self, body: RequestBody) -> ModelConversation: ...

    @abstractmethod
    def answer_body(self, answer: ModelAnswer, model: str) -> dict[str, Any]: ...

    @abstractmethod
    def answer_text(self, answer: Mapping[str, Any]) -> str:
        """The text of a whole answer, for people."""

    @abstractmethod
    def answer_events(
        self, answer: ModelAnswer, model: str, *, include_usage: bool
    ) -> Iterator[bytes]:
        """The answer as the events of a stream."""


def positive(value: object, name: str) -> int | None:
    """A number of tokens or choices of a request. CallFailed: 400."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise bad_request(f"`{name}` is not a positive whole number")
    return value


def read_tools(body: RequestBody, schema: str) -> tuple[OfferedTool, ...]:
    """The tools of a request whose definitions are not nested; `schema` is their key for it."""
    tools = list_of({"tools": body.value("tools")}, "tools")
    return tuple(
        OfferedTool(str(tool.get("name", "")), str(tool.get("description", "")),
                    part_of(tool, schema))
        for tool in tools
    )  # fmt: skip


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def event(data: object, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + dump(data) + b"\n\n"


OPENAI_TYPES: Final = {
    400: ("invalid_request_error", None),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def openai_error(failure: CallFailed) -> dict[str, Any]:
    kind, code = OPENAI_TYPES.get(failure.status, ("server_error", "server_error"))
    return {"message": failure.message, "type": kind, "param": None, "code": failure.code or code}
