"""What an answer used: read from the bytes that pass, whatever a provider writes there."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOKENS_MOST: Final = 1 << 30
EVENT_MOST: Final = 1 << 20  # a larger event is passed on unread
BYTES_OF_TOKEN: Final = 4
# A blank line; the two bytes of "\r\n" are one end of a line.
_BLANK: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LINE: Final = re.compile(rb"\r\n|\n|\r")
_BLANK_MOST: Final = 4


def token_count(value: object) -> int | None:
    """The number of tokens that a provider reports; None where it is not one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MOST:
        return value
    return None


def estimate_tokens(size: int) -> int:
    return -(-size // BYTES_OF_TOKEN)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """`tokens_in` includes what was read from and written to the provider's cache."""

    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False


@dataclass(slots=True)
class AnswerMeter(ABC):
    """Reads one answer. `request_size` is the basis of the estimate where nothing is reported."""

    request_size: int
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    out_bytes: int = 0
    is_complete: bool = False
    is_failed: bool = False  # the provider itself reported an error in the stream
    is_usage_event: bool = False  # whether the last event reports usage, and nothing else
    sequence: int = 0

    def read(self, event: Mapping[str, Any]) -> None:
        """Read one event of a stream, or an error in place of it."""
        self.is_failed = self.is_failed or bool(event.get("error")) or event.get("type") == "error"
        self.read_event(event)

    @abstractmethod
    def read_event(self, event: Mapping[str, Any]) -> None:
        """Read one event of a stream."""

    @abstractmethod
    def read_answer(self, answer: Mapping[str, Any]) -> None:
        """Read a whole answer."""

    def read_done(self) -> None:
        """Read `[DONE]`, the end of a chat stream."""
        self.is_complete = True

    def count_text(self, *texts: object) -> None:
        """Count text of the model, for the estimate."""
        self.out_bytes += sum(
            len(text.encode(errors="replace")) for text in texts if isinstance(text, str)
        )

    def read_counts(self, usage: Mapping[str, Any], names: tuple[str, str, str]) -> None:
        """Read usage whose input includes that of the cache; its names: input, output, details."""
        tokens_in, tokens_out, details = names
        if (tokens := token_count(usage.get(tokens_in))) is not None:
            self.tokens_in = tokens
        if (tokens := token_count(usage.get(tokens_out))) is not None:
            self.tokens_out = tokens
        parts = part_of(usage, details)
        self.cache_read = token_count(parts.get("cached_tokens")) or self.cache_read
        self.cache_write = token_count(parts.get("cache_write_tokens")) or self.cache_write

    @property
    def out_so_far(self) -> int:
        return max(self.tokens_out or 0, estimate_tokens(self.out_bytes))

    @property
    def is_counted(self) -> bool:
        """Whether the answer is whole, and the provider has said what it used."""
        return self.tokens_in is not None and self.tokens_out is not None and self.is_complete

    def usage(self) -> TokenUsage:
        is_known = self.is_counted
        tokens_in = estimate_tokens(self.request_size) if self.tokens_in is None else self.tokens_in
        tokens_out = (
            self.tokens_out if is_known and self.tokens_out is not None else self.out_so_far
        )
        read = min(self.cache_read, tokens_in)
        written = min(self.cache_write, tokens_in - read)
        return TokenUsage(tokens_in, tokens_out, read, written, estimated=not is_known)


@dataclass(slots=True)
class EventCutter:
    """Cuts a stream into events with the blank line that ends each; their bytes are unchanged."""

    _rest: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[bytes]:
        searched = max(0, len(self._rest) - _BLANK_MOST)
        self._rest += data
        events, start = [], 0
        for match in _BLANK.finditer(self._rest, searched):
            events.append(bytes(self._rest[start : match.end()]))
            start = match.end()
        if len(self._rest) - start > EVENT_MOST:
            events.append(bytes(self._rest[start:]))
            start = len(self._rest)
        del self._rest[:start]
        return events

    def take_rest(self) -> bytes:
        """The unfinished event at the end of the stream."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


DONE: Final = b"[DONE]"


def event_data(event: bytes) -> bytes:
    """The data of an event: its `data` lines."""
    lines = [line[5:].removeprefix(b" ") for line in _LINE.split(event) if line[:5] == b"data:"]
    return b"\n".join(lines)


def parse_object(data: bytes) -> Mapping[str, Any]:
    """The JSON object in these bytes; empty where there is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def part_of(value: object, *path: str) -> Mapping[str, Any]:
    """The object at this path below another one; empty where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def list_of(value: object, key: str) -> list[Mapping[str, Any]]:
    """The objects in the list of this name."""
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
