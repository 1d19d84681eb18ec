"""What is asked of an event before anybody reads it, kept in memory for all who follow the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

# Heads that are kept in memory, so that many who follow the log read it once.
_KEPT: Final = 8192
# Events that are loaded at once: no more bodies than that are read for one that is looked at.
_AT_ONCE: Final = 64
_KIND: Final = '},"kind":"'
_TARGET: Final = ',"target":"'
_TIME: Final = '","time":'
_CALLER: Final = '"caller":"'


class EventHead(NamedTuple):
    """What is asked of an event before anybody reads it."""

    seq: int
    kind: str
    caller: str
    target: str
    time: float


def head_of(seq: int, body: str) -> EventHead:
    """Out of canonical JSON: it is not parsed, because its fields may be long and many.

    In JSON a quote inside of a text has a backslash before it. So what is looked for stands for
    itself: the caller comes before the fields, and only texts come behind the kind.
    """
    at = body.rfind(_KIND) + len(_KIND)
    behind = body.rfind(_TARGET) + len(_TARGET)
    time = body.rfind(_TIME)
    first = body.find(_CALLER) + len(_CALLER)
    return EventHead(
        seq, _text(body, at, body.find('","', at)), _text(body, first, body.find('","', first)),
        _text(body, behind, time), float(body[time + len(_TIME) : -1]),
    )  # fmt: skip


def _text(body: str, start: int, end: int) -> str:
    plain = body[start:end]
    return plain if "\\" not in plain else str(json.loads(f'"{plain}"'))


class Heads:
    """`load` reads the next heads behind a number, so many at most; numbers may have gaps."""

    def __init__(self, load: Callable[[int, int], Sequence[EventHead]]) -> None:
        self._load = load
        # The next event behind each number.
        self._behind: dict[int, EventHead] = {}

    def next(self, after: int, limit: int) -> list[EventHead]:
        """The next heads behind number `after`, at most `limit`."""
        heads: list[EventHead] = []
        while len(heads) < limit:
            head = self._behind.get(after)
            if head is None:
                head = self._load_behind(after)
                if head is None:
                    break
            heads.append(head)
            after = head.seq
        return heads

    def forget(self) -> None:
        """What was remembered may never have been."""
        self._behind.clear()

    def _load_behind(self, after: int) -> EventHead | None:
        heads = self._load(after, _AT_ONCE)
        if len(self._behind) > _KEPT - _AT_ONCE:
            self._behind.clear()
        for head in heads:
            self._behind[after] = head
            after = head.seq
        return heads[0] if heads else None
