"""The Varlink codec (UAPI.20) and a small blocking client.

A message is one JSON object and a NUL byte. Standard library only: the in-container client and the
command line use this file too. The codec refuses for every reader: large and deep frames, duplicate
keys, NaN, lone surrogates, huge integers.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from math import isinf
from typing import Final, Never, TypeVar

from hive_core.errors import BadFrame, HiveError, TimedOut, Unreachable, from_wire

FRAME_LIMIT: Final = 1 << 20
DEPTH_LIMIT: Final = 32
OBJECT_LIMIT: Final = 10_000
SILENCE: Final = "no answer in time"
_READ: Final = 1 << 16
_DIGITS: Final = 20
_SPACE: Final = " \t\n\r"
_PLAIN: Final = bytes(set(range(256)) - set(b"[]{},:"))
_BRACKETS: Final = bytes.maketrans(b"{}:", b"[],")

Message = dict[str, object]
T = TypeVar("T")


def encode(message: Message) -> bytes:
    """Encode a message as one frame, including its NUL.

    Non-ASCII text stays UTF-8; NaN and lone surrogates are refused.
    """
    try:
        return _ENCODER.encode(message).encode() + b"\0"
    except (TypeError, ValueError, RecursionError) as error:
        raise BadFrame(f"cannot encode message: {error}") from error


def decode(frame: bytes, values: int = FRAME_LIMIT) -> Message:
    """The object in one frame without its NUL; raises BadFrame with the broken rule.

    `values` limits the names and values in it: a Python object takes much more time and memory than
    the two bytes that it may take in the frame.
    """
    size = len(frame)
    if size > FRAME_LIMIT:
        raise BadFrame(f"frame is larger than {FRAME_LIMIT} bytes")
    if (
        frame.count(b"{") + frame.count(b"[") > DEPTH_LIMIT
        or (size > values and frame.count(b",") + frame.count(b":") >= values)
    ):  # fmt: skip
        check_shape(frame, values)
    try:
        text = frame.decode()
        # Not decode(), which searches surrounding white space by two regular expressions.
        text = text if text[:1] == "{" else text.lstrip(_SPACE)
        message, end = _SCAN(text, 0)
    except (ValueError, RecursionError, StopIteration) as error:
        why = "no value" if isinstance(error, StopIteration) else error
        raise BadFrame(f"frame is not JSON: {why}") from error
    if (rest := text[end:]) and rest.strip(_SPACE):
        raise BadFrame("frame is not JSON: more follows the value")
    if type(message) is not dict:
        raise BadFrame("frame is not a JSON object")
    # Only an escaped surrogate can survive UTF-8 decoding, so most frames need no second check.
    if b"\\u" in frame:
        _refuse_surrogates(message)
    return message


def check_shape(
    frame: bytes, values: int, depth: int = DEPTH_LIMIT, objects: int = OBJECT_LIMIT
) -> None:
    """Refuse a deep frame, or one with many values, before json builds it (attack 66).

    It uses only methods of bytes: a Python loop over the brackets took longer than the parser
    itself.
    """
    bare = frame
    for escape in (b"\\\\", b'\\"'):
        if escape in bare:
            bare = bare.replace(escape, b"")
    # Two quotes are one text, and each text has a separator or a bracket.
    if bare.count(b'"') > 2 * (values + objects):
        raise BadFrame(f"frame holds more than {values} values")
    marks = b"".join(bare.split(b'"')[::2]).translate(_BRACKETS, _PLAIN)
    if marks.count(b",") >= values:
        raise BadFrame(f"frame holds more than {values} values")
    brackets = marks.translate(None, b",")
    if len(brackets) > 2 * objects:
        raise BadFrame(f"frame holds more than {objects} objects and lists")
    _check_depth(brackets, depth)


def _check_depth(brackets: bytes, depth: int) -> None:
    # Each pass removes the innermost pairs. What remains was deeper, or is not closed.
    for _ in range(depth):
        if not brackets:
            return
        brackets = brackets.replace(b"[]", b"")
    if b"[]" in brackets or brackets.count(b"[") > depth:
        raise BadFrame(f"frame nests deeper than {depth}")


def _unique(pairs: list[tuple[str, object]]) -> Message:
    message = dict(pairs)
    if pairs[len(message) :]:  # more pairs than keys
        raise ValueError("duplicate key")
    return message


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")


def _bounded_int(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError("integer is out of range")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if isinf(number):  # 1e999, which could not be encoded again
        raise ValueError("number is out of range")
    return number


# Created once: json.dumps() with arguments creates one for each call.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_no_constant,
    parse_int=_bounded_int,
    parse_float=_finite,
)
# What raw_decode() calls: the value that begins at a character, and where it ends.
_SCAN: Final[Callable[[str, int], tuple[object, int]]] = _DECODER.scan_once  # type: ignore[attr-defined]  # typeshed does not have it


def _refuse_surrogates(message: Message) -> None:
    try:
        json.dumps(message, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadFrame("frame holds a lone surrogate") from error


class FrameReader:
    """Cuts a byte stream into frames; keeps at most one unfinished frame."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._rest = bytearray()

    @property
    def pending(self) -> bool:
        """True inside an unfinished frame."""
        return bool(self._rest)

    @property
    def size(self) -> int:
        """Bytes of the unfinished frame so far."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes; raises BadFrame once an unfinished one is too large."""
        # Only new bytes are searched and copied: a frame may come one byte at a time (attack 36).
        *whole, rest = data.split(b"\0")
        if whole and self._rest:
            whole[0] = bytes(self._rest) + whole[0]
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self._limit:
            raise BadFrame(f"frame is larger than {self._limit} bytes")
        return whole


class Client:
    """One blocking connection; calls go one after another. Close it or use it as a context."""

    def __init__(self, path: str, wait: float | None = 60.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(wait)
        self._reader = FrameReader()
        self._frames: list[bytes] = []
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Unreachable(f"cannot reach {path}: {error.strerror or error}") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def call(self, method: str, parameters: Message | None = None) -> Message:
        """The reply's parameters; raises the error that the reply names."""
        self._send({"method": method, "parameters": parameters or {}})
        return _parameters(self._receive())

    def call_together(self, calls: Sequence[tuple[str, Message]]) -> list[Message | HiveError]:
        """Send all calls at once; the parameters, or the error, of each reply in their order.

        The daemon serves what arrives together in one batch.
        """
        rows: list[Message] = [{"method": name, "parameters": params} for name, params in calls]
        self._send(*rows)
        return [_outcome(self._receive()) for _ in calls]

    def tell(self, method: str, parameters: Message) -> None:
        """Send a call that has no reply."""
        self._send({"method": method, "parameters": parameters, "oneway": True})

    def stream(self, method: str, parameters: Message | None = None) -> Iterator[Message]:
        """Yield each reply of a `more` call as it comes."""
        self._send({"method": method, "parameters": parameters or {}, "more": True})
        while True:
            reply = self._receive()
            yield _parameters(reply)
            if not reply.get("continues"):
                return

    def _send(self, *messages: Message) -> None:
        data = b"".join(map(encode, messages))
        self._guard(lambda: self._socket.sendall(data))

    def _receive(self) -> Message:
        while not self._frames:
            data = self._guard(lambda: self._socket.recv(_READ))
            if not data:
                raise Unreachable("the daemon closed the connection")
            self._frames = self._reader.feed(data)
        return decode(self._frames.pop(0))

    @staticmethod
    def _guard(effect: Callable[[], T]) -> T:
        try:
            return effect()
        except TimeoutError as error:
            raise TimedOut(SILENCE) from error
        except OSError as error:
            raise Unreachable(f"connection lost: {error.strerror or error}") from error


def _parameters(reply: Message) -> Message:
    parameters = reply.get("parameters")
    values = parameters if isinstance(parameters, dict) else {}
    error = reply.get("error")
    if error is not None:
        raise from_wire(str(error), values)
    return values


def _outcome(reply: Message) -> Message | HiveError:
    try:
        return _parameters(reply)
    except HiveError as error:
        return error
