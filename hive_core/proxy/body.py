"""The body of a request: which parts hive-model reads, and the few places where it changes it.

A body is passed on byte for byte but for these: the alias becomes the provider's name of the model,
a chat stream is made to report its usage, and an answer may not be longer than allowed. All else
keeps its bytes, because providers cache by them. So nothing is serialised again: the values are
located in the bytes and cut out.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Never

from hive_core.errors import BadFrame
from hive_core.proxy.failure import bad_request
from hive_core.varlink import check_shape

DEPTH_MOST: Final = 64
VALUES_MOST: Final = 500_000
OBJECTS_MOST: Final = 200_000
_PIECE: Final = 1 << 16
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_USAGE: Final = b'{"include_usage":true}'
# What decides about a call. Some providers ignore the case of names, so that `Model` would be a
# second `model` to them.
_JUDGED: Final = frozenset({
    "background", "conversation", "fallbacks", "input", "max_completion_tokens",
    "max_output_tokens", "max_tokens", "messages", "model", "models", "n", "previous_response_id",
    "prompt", "service_tier", "stream", "stream_options", "tool_choice",
    "tools",
})  # fmt: skip


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


# The scanner in C behind json.loads: the value at a position, and where it ends.
_scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(
    parse_constant=_refuse_constant
).scan_once  # type: ignore[attr-defined]  # not in typeshed


@dataclass(frozen=True, slots=True)
class Part:
    """The place of a value in a body."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AnswerBound:
    """How many tokens an answer may have, and the members that say it. `adds`: where none does."""

    tokens: int
    keys: tuple[str, ...]
    adds: bool = False


@dataclass(frozen=True, slots=True)
class RequestBody:
    """`members` are those of the top level; `turns` the elements of its list of messages."""

    data: bytes
    members: dict[str, Part]
    turns: tuple[Part, ...]
    end: int  # the position of the last brace

    def read(self, part: Part) -> Any:  # noqa: ANN401 - whatever a client wrote
        return json.loads(self.data[part.start : part.end])

    def value(self, key: str) -> Any:  # noqa: ANN401
        part = self.members.get(key)
        return None if part is None else self.read(part)

    @property
    def alias(self) -> str:
        alias = self.value("model")
        if not isinstance(alias, str) or not alias:
            raise bad_request("`model` is missing: name the alias of a model")
        return alias

    @property
    def is_stream(self) -> bool:
        return self.value("stream") is True

    @property
    def offers_tools(self) -> bool:
        """Whether the model may call a tool.

        A request that forbids it may still declare them: without the tools of its past calls a
        provider may refuse a conversation.
        """
        choice = self.value("tool_choice")
        kind = choice.get("type") if isinstance(choice, dict) else choice
        return bool(self.value("tools")) and kind != "none"

    @property
    def includes_usage(self) -> bool:
        """Whether the client itself wants a chat stream to report its usage."""
        options = self.value("stream_options")
        return isinstance(options, dict) and options.get("include_usage") is True

    def prefix_digest(self, keys: tuple[str, ...]) -> str:
        """SHA-256 over these members and all turns but the last.

        It is equal for calls that begin with the same bytes, so that a provider can answer them
        from its cache.
        """
        digest = sha256()
        for key in keys:
            if part := self.members.get(key):
                digest.update(f"{key}\0".encode())
                digest.update(self.data[part.start : part.end] + b"\0")
        for part in self.turns[:-1]:
            digest.update(self.data[part.start : part.end] + b"\0")
        return digest.hexdigest()

    def with_model(
        self, name: str, *, include_usage: bool = False, bound: AnswerBound | None = None
    ) -> bytes:
        """The bytes for the provider."""
        cuts = [(self.members["model"], json.dumps(name).encode())]
        if include_usage and not self.includes_usage:
            cuts.append(self._usage_cut())
        if bound is not None:
            cuts += self._bound_cuts(bound)
        pieces, position = [], 0
        for part, replacement in sorted(cuts, key=lambda cut: cut[0].start):
            pieces += [self.data[position : part.start], replacement]
            position = part.end
        return b"".join([*pieces, self.data[position:]])

    def _bound_cuts(self, bound: AnswerBound) -> list[tuple[Part, bytes]]:
        """The changes that keep an answer within its bound."""
        most = str(bound.tokens).encode()
        parts = [self.members[key] for key in bound.keys if self.value(key) is not None]
        if parts or not bound.adds:
            return [(part, most) for part in parts if self.read(part) > bound.tokens]
        own = next((self.members[key] for key in bound.keys if key in self.members), None)
        if own is not None:  # null
            return [(own, most)]
        return [(Part(self.end, self.end), b',"%s":%s' % (bound.keys[0].encode(), most))]

    def _usage_cut(self) -> tuple[Part, bytes]:
        """The change that makes a chat stream report its usage."""
        part = self.members.get("stream_options")
        if part is None:
            return Part(self.end, self.end), b',"stream_options":' + _USAGE
        if self.data[part.start : part.start + 1] != b"{":
            return part, _USAGE
        inner, _ = _read_object(self.data.decode("latin-1"), part.start)
        if own := inner.get("include_usage"):
            return own, b"true"
        comma = b"," if inner else b""
        return Part(part.start + 1, part.start + 1), b'"include_usage":true' + comma


def parse_body(data: bytes, turns_key: str) -> RequestBody:
    """The body as its parts. CallFailed (400) says what is wrong with it."""
    try:
        _check_content(data)
        return _parse(data, turns_key)
    except UnicodeDecodeError as error:
        raise bad_request(f"the body is not UTF-8: {error.reason}") from error
    # StopIteration: the scanner's word for "no value here".
    except (ValueError, StopIteration, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "a value is missing"
        raise bad_request(f"the body is not JSON: {reason[:200]}") from error


def _check_content(data: bytes) -> None:
    """Refuse bytes that are not UTF-8, and those that cost much more as values than as bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), _PIECE):
        decoder.decode(data[start : start + _PIECE])
    decoder.decode(b"", final=True)
    marks = data.count(b"{") + data.count(b"[")
    if marks <= DEPTH_MOST and data.count(b",") + data.count(b":") <= VALUES_MOST:
        return
    try:
        check_shape(data, VALUES_MOST, DEPTH_MOST, OBJECTS_MOST)
    except BadFrame as error:
        raise bad_request(f"the body {error.reason.removeprefix('frame ')}") from error


def _parse(data: bytes, turns_key: str) -> RequestBody:
    # One character for each byte, so that positions are those of the bytes.
    text = data.decode("latin-1")
    start = _skip(text, 0)
    if text[start : start + 1] != "{":
        raise bad_request("the body is not a JSON object")
    members, end = _read_object(text, start)
    if _skip(text, end) != len(text):
        raise bad_request("the body is not JSON: more follows the object")
    for key in members:
        if key not in _JUDGED and key.casefold() in _JUDGED:
            raise bad_request(f"{key!r}: write it in small letters")
    turns = members.get(turns_key)
    is_list = turns is not None and text[turns.start] == "["
    parts = _read_list(text, turns.start) if turns is not None and is_list else ()
    return RequestBody(data, members, parts, end - 1)


def _read_object(text: str, start: int) -> tuple[dict[str, Part], int]:
    """The members of the object that begins at `start`, and the position after it."""
    members: dict[str, Part] = {}
    position = _skip(text, start + 1)
    if text[position : position + 1] == "}":
        return members, position + 1
    while True:
        key, value, position = _read_member(text, position)
        if key in members:
            raise bad_request(f"{key[:60]!r} is there twice")
        members[key] = value
        if text[position : position + 1] == "}":
            return members, position + 1
        position = _expect(text, position, ",")


def _read_member(text: str, start: int) -> tuple[str, Part, int]:
    """Key and value, and the position after the space that follows them."""
    if text[start : start + 1] != '"':
        raise ValueError(f"a name is missing at byte {start}")
    _, after = _scan(text, start)
    key = json.loads(text[start:after].encode("latin-1"))
    position = _expect(text, _skip(text, after), ":")
    _, end = _scan(text, position)
    return key, Part(position, end), _skip(text, end)


def _read_list(text: str, start: int) -> tuple[Part, ...]:
    """The elements of a list that is known to be valid."""
    parts = []
    position = _skip(text, start + 1)
    while text[position] != "]":
        _, end = _scan(text, position)
        parts.append(Part(position, end))
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return tuple(parts)


def _skip(text: str, position: int) -> int:
    """The position of the next character that is not white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _expect(text: str, position: int, mark: str) -> int:
    """The position of what follows this mark."""
    if text[position : position + 1] != mark:
        raise ValueError(f"{mark!r} is missing at byte {position}")
    return _skip(text, position + 1)
