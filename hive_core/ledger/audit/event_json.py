"""An event as the exact JSON text that its digest covers."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from json.encoder import encode_basestring as _quoted
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hive_core.model.wire.record import DAMAGED_EVENT, Event

if TYPE_CHECKING:
    from hive_core.ledger.audit.events import AuditEntry

AFTER: Final = '{"after":'
_DAMAGED: Final = (
    "somebody changed its row in the ledger, and hived cannot read an event out of it;"
    " `hive call --more CheckEvents` checks the whole log"
)
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999: no reader can write a later time
_SURROGATE: Final = "\\ud"
_DEPTH_MOST: Final = 100
_WORDS: Final = {None: "null", True: "true", False: "false"}
_ALLOWED: Final = (bool, type(None))
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


class Form(NamedTuple):
    """The JSON of an event without its request and time, which often are the only differences.

    Beside it, the fields that filters test.
    """

    head: str
    tail: str
    kind: str
    caller: str
    target: str
    operation: str

    def json_for(self, request: str, now: float) -> str:
        """JSON without blanks and with sorted keys, the input of the digest."""
        return f"{self.head}{_quoted(request)}{self.tail}{now!r}}}"


def form(entry: AuditEntry) -> Form:
    """Build the JSON by hand, because the keys are fixed.

    It takes a quarter of an encoder's time.
    """
    kind, caller, operation, target, allowed, rule, reason, commit, _, _, fields = entry
    more = ",".join([
        f"{_quoted(key)}:{_quoted(value) if type(value) is str else _encode(value)}"
        for key, value in sorted(fields.items())
    ])  # fmt: skip
    head = (
        f'{{"allowed":{_WORDS[allowed]},"caller":{_quoted(caller)},"commit":{_quoted(commit)},'
        f'"fields":{{{more}}},"kind":{_quoted(kind)},"operation":{_quoted(operation)},'
        f'"reason":{_quoted(reason)},"request":'
    )
    tail = f',"rule":{_quoted(rule)},"target":{_quoted(target)},"time":'
    return Form(head, tail, kind, caller, target, operation)


def link(before: bytes, body: str) -> bytes:
    return sha256(before + body.encode("utf-8", "surrogatepass")).digest()


def parse_event(seq: int, digest: bytes, body: str) -> Event:
    """The event with this number; one of the kind `damaged` where the text is that of none."""
    try:
        values = json.loads(body)
        _check_writable(body, values)
        return _read_event(seq, digest, values)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Event(
            seq=seq, time=0.0, kind=DAMAGED_EVENT, caller="", operation="", target="",
            allowed=None, rule="", reason=_DAMAGED, commit="", request="", digest=digest.hex(),
        )  # fmt: skip


def _check_writable(body: str, values: object) -> None:
    """Raise ValueError for what no reader can write: half a character, lists without end."""
    if _SURROGATE in body:
        _encode(values).encode()
    if body.count("[") + body.count("{") > _DEPTH_MOST and _depth(values) > _DEPTH_MOST:
        raise ValueError("it is nested too deep")


def _read_event(seq: int, digest: bytes, values: dict[str, Any]) -> Event:
    values.pop("after", None)
    time, allowed, fields = float(values.pop("time")), values.pop("allowed"), values.pop("fields")
    # All others are texts. One look at their types: a page has a thousand events.
    is_fitting = type(fields) is dict and isinstance(allowed, _ALLOWED)
    is_fitting = is_fitting and 0 <= time <= _LAST_SECOND
    if not is_fitting or {*map(type, values.values())} != {str}:
        raise TypeError("a part of it is of another type")
    return Event(
        seq=seq, time=time, allowed=allowed, **values, fields=MappingProxyType(fields),
        digest=digest.hex(),
    )  # fmt: skip


def _depth(value: Any) -> int:  # noqa: ANN401 - of JSON
    """How deep lists and objects are nested."""
    parts = value.values() if isinstance(value, dict) else value
    return 1 + max(map(_depth, parts), default=0) if isinstance(value, dict | list) else 0


def number_before(seq: int, body: str) -> int:
    """The number of the event before this one in the chain; its own where the text has none."""
    if not body.startswith(AFTER):
        return seq - 1
    with suppress(ValueError):
        return int(body[len(AFTER) : body.index(",")])
    return seq
