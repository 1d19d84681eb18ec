"""The fields of events that filters test, cached in memory for all clients that follow the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hive_core.model.wire.record import DAMAGED_EVENT

# Number of cached heads, so that many followers read the log once.
_KEPT: Final = 8192
# Events that are loaded at once.
_AT_ONCE: Final = 128
_KIND: Final = '},"kind":"'
_OPERATION: Final = '","operation":"'
_TARGET: Final = ',"target":"'
_TIME: Final = '","time":'
_CALLER: Final = '"caller":"'


class EventHead(NamedTuple):
    """The fields of an event that are tested before its text is read."""

    seq: int
    kind: str
    caller: str
    target: str
    time: float
    operation: str = ""  # not known of notes of agents


def head_of(seq: int, body: str) -> EventHead:
    """Read the head out of canonical JSON, without parsing fields, which may be long and many.

    In JSON, a quote inside a text is escaped. So each pattern here matches only at its own place:
    the caller precedes the fields, and only texts follow the kind, the operation first.
    Where somebody has changed the text so that no event can be read out of it, the head has the
    kind `damaged` and names neither caller nor target.
    """
    try:
        at = body.rfind(_KIND) + len(_KIND)
        kind_end = body.find('","', at)
        operation = kind_end + len(_OPERATION)
        behind = body.rfind(_TARGET) + len(_TARGET)
        time = body.rfind(_TIME)
        first = body.find(_CALLER) + len(_CALLER)
        return EventHead(
            seq, _text(body, at, kind_end), _text(body, first, body.find('","', first)),
            _text(body, behind, time), float(body[time + len(_TIME) : -1]),
            _text(body, operation, body.find('","', operation)),
        )  # fmt: skip
    except ValueError:
        return EventHead(seq, DAMAGED_EVENT, "", "", 0.0)


def _text(body: str, start: int, end: int) -> str:
    plain = body[start:end]
    return plain if "\\" not in plain else str(json.loads(f'"{plain}"'))


class Heads:
    """A cache of heads. `load` returns the next heads after a number; numbers may have gaps.

    `end`: the number after which a reader found no event. The log adds the events that follow it
    as it writes them, so that a reader who follows the log gets them from memory.
    """

    def __init__(self, load: Callable[[int, int], Sequence[EventHead]]) -> None:
        self._load = load
        # The next event after each number.
        self._behind: dict[int, EventHead] = {}
        self.end: int | None = None

    def next(self, after: int, limit: int) -> list[EventHead]:
        """The next heads after number `after`, at most `limit`."""
        heads: list[EventHead] = []
        while len(heads) < limit:
            head = self._behind.get(after)
            if head is None:
                head = self._load_behind(after)
                if head is None:
                    self.end = after
                    break
            heads.append(head)
            after = head.seq
        return heads

    def add(self, after: int, head: EventHead) -> None:
        """Keep the event that was written behind `end`, which is `after`.

        A full cache is cleared; it fills again when a reader reaches the end of the log.
        """
        if len(self._behind) >= _KEPT:
            self.forget()
            return
        self._behind[after] = head
        self.end = head.seq

    def forget(self) -> None:
        """Clear the cache after a rollback, because cached events may not exist."""
        self._behind.clear()
        self.end = None

    def _load_behind(self, after: int) -> EventHead | None:
        heads = self._load(after, _AT_ONCE)
        if len(self._behind) > _KEPT - _AT_ONCE:
            self._behind.clear()
        for head in heads:
            self._behind[after] = head
            after = head.seq
        return heads[0] if heads else None
