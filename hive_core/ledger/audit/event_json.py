"""An event as the exact JSON text that its digest covers."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256
from json.encoder import encode_basestring as _quoted
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hive_core.ledger.core.connection import Damaged
from hive_core.model.wire.record import Event

if TYPE_CHECKING:
    from hive_core.ledger.audit.events import AuditEntry

AFTER: Final = '{"after":'
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
    """The event with this number. Damaged: the text is not that of an event."""
    try:
        return _read_event(seq, digest, json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise damaged_event(seq) from error


def _read_event(seq: int, digest: bytes, values: dict[str, Any]) -> Event:
    values.pop("after", None)
    time, allowed, fields = float(values.pop("time")), values.pop("allowed"), values.pop("fields")
    # All others are texts. One look at their types: a page has a thousand events.
    is_fitting = type(fields) is dict and isinstance(allowed, _ALLOWED)
    if not is_fitting or {*map(type, values.values())} != {str}:
        raise TypeError("a part of it is of another type")
    return Event(
        seq=seq, time=time, allowed=allowed, **values, fields=MappingProxyType(fields),
        digest=digest.hex(),
    )  # fmt: skip


def damaged_event(seq: int) -> Damaged:
    """The error of a reader who meets a text that somebody has changed in the ledger."""
    return Damaged(
        f"cannot read event {seq} of the audit log: it was changed in the ledger;"
        " `hive call --more CheckEvents` checks the whole log"
    )


def number_before(seq: int, body: str) -> int:
    """The number of the event before this one in the chain; its own where the text has none."""
    if not body.startswith(AFTER):
        return seq - 1
    with suppress(ValueError):
        return int(body[len(AFTER) : body.index(",")])
    return seq
