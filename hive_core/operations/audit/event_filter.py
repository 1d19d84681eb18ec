"""Reading the audit log: a filter, a position, and the gaps where events were pruned.

Numbers only increase. So a reader that continues from the last number that it saw gets all later
events, or a gap that tells where events were pruned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Final, NamedTuple, Self, TypeVar

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.errors import InvalidArgument
from hive_core.ledger.audit.event_heads import EventHead
from hive_core.ledger.audit.events import AuditLog
from hive_core.ledger.audit.notes import OWN, is_note
from hive_core.model.wire.record import EVENT_KINDS, Event
from hive_core.operations.pages import REPLY_BYTES

R = TypeVar("R")

# What mail is recorded as: most events of a busy host.
MAIL: Final = frozenset({"ack", "publish", "recv", "send", "wake"})
# Events that one call scans. If none of them matches, an empty page moves the reader on.
SCAN: Final = 1000

Kinds = Annotated[
    list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,63}\*?$")]],
    Field(
        max_length=32,
        description="Only events of these kinds; `*` at the end of one matches any rest.",
    ),
]


class Gap(Result):
    """Range of numbers in which matching events were pruned."""

    first: int = Field(
        serialization_alias="from", description="The first number that may be missing."
    )
    last: int = Field(serialization_alias="to", description="The last number that is missing.")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events. Empty: all. `parties` are UUIDs, or `operator` or `daemon`."""

    kinds: tuple[str, ...] = ()
    parties: frozenset[str] = frozenset()
    since: float | None = None
    task: str = ""

    @classmethod
    def of(
        cls, call: Call, kinds: Sequence[str], agents: Sequence[str], since: float | None = None
    ) -> Self:
        """The filter for parameters of a call; agents by name or UUID.

        An unknown kind is refused, since a call that follows it would never end.
        """
        for kind in kinds:
            _check_kind(kind)
        specs = call.hive.specs
        parties = frozenset(specs[agent].id if agent in specs else agent for agent in agents)
        return cls(tuple(kinds), parties, since)

    @property
    def matches_notes(self) -> bool:
        """Whether notes of agents may match."""
        return not self.kinds or any(
            is_note(kind) or (kind.endswith("*") and OWN.startswith(kind[:-1]))
            for kind in self.kinds
        )

    def matches(self, head: EventHead) -> bool:
        if self.since is not None and head.time < self.since:
            return False
        if self.parties and not self.parties & {head.caller, head.target}:
            return False
        return not self.kinds or any(_kind_matches(head.kind, kind) for kind in self.kinds)


def _check_kind(wanted: str) -> None:
    if wanted.startswith(OWN) or (wanted.endswith("*") and OWN.startswith(wanted[:-1])):
        return
    if not any(_kind_matches(kind, wanted) for kind in EVENT_KINDS):
        near = get_close_matches(wanted, EVENT_KINDS, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else f"kinds are {', '.join(EVENT_KINDS)}, own.*"
        raise InvalidArgument(f"no events of kind {wanted!r}; {hint}", field="kinds")


class EventScan(NamedTuple):
    """The matching heads, the last number that was scanned, and the mail that was left out."""

    hits: list[EventHead]
    end: int
    skipped: Sequence[EventHead] = ()


def scan_events(
    log: AuditLog, wanted: EventFilter, after: int, limit: int, mail: int | None = None
) -> EventScan:
    """Heads of the next matching events after a number, at most `limit`.

    `mail`: events of mail at most, the newest of them.
    """
    heads = log.heads(after, SCAN)
    hits, skipped = _matching(log, wanted, heads), list[EventHead]()
    end = heads[-1].seq if len(heads) == SCAN else max(after, log.last)
    if mail is not None:
        hits, skipped = _thin_mail(hits, mail)
    if len(hits) > limit:
        hits, end = hits[:limit], hits[limit - 1].seq
    return EventScan(hits, end, skipped)


def _thin_mail(heads: Sequence[EventHead], most: int) -> tuple[list[EventHead], list[EventHead]]:
    """What is listed, and the older mail that is left out; refused mail is always listed."""
    mail = [head for head in heads if head.kind == "record" and head.operation in MAIL]
    if len(mail) <= most:
        return list(heads), []
    skipped = mail[: len(mail) - most]
    left_out = {head.seq for head in skipped}
    return [head for head in heads if head.seq not in left_out], skipped


def scan_events_back(log: AuditLog, wanted: EventFilter, before: int, limit: int) -> EventScan:
    """Heads of the matching events before a number, the newest first; `end` 0: none is left."""
    start = max(log.base, before - 1 - SCAN)
    heads = [head for head in log.heads(start, SCAN) if head.seq < before]
    hits = _matching(log, wanted, heads)[::-1]
    if len(hits) > limit:
        return EventScan(hits[:limit], hits[limit - 1].seq)
    return EventScan(hits, 0 if start == log.base else start + 1)


def _matching(log: AuditLog, wanted: EventFilter, heads: Sequence[EventHead]) -> list[EventHead]:
    hits = [head for head in heads if wanted.matches(head)]
    if not (wanted.task and hits):
        return hits
    about = log.about_task(wanted.task, hits[0].seq - 1, hits[-1].seq)
    return [head for head in hits if head.seq in about]


def event_page(
    log: AuditLog, scan: EventScan, row: Callable[[Event], R], size: Callable[[R], int],
    room: int = REPLY_BYTES,
) -> tuple[list[R], int]:  # fmt: skip
    """The first of the events that fit into one reply, and the last number that it covers.

    When the page is full no further event is read (attack 61).
    """
    rows: list[R] = []
    left, end = room, 0
    for event in log.some([head.seq for head in scan.hits]):
        shown = row(event)
        left -= size(shown)
        if left < 0 and rows:
            return rows, end
        rows.append(shown)
        end = event.seq
    return rows, scan.end


def find_gap(log: AuditLog, wanted: EventFilter, after: int, end: int) -> Gap | None:
    """The range up to the end of a page in which matching events were pruned."""
    lost = max(log.base, log.thinning.last())
    if wanted.matches_notes:
        lost = max(lost, log.notes.last_lost(wanted.parties))
    return Gap(first=after + 1, last=min(lost, end)) if after < lost else None


def _kind_matches(kind: str, pattern: str) -> bool:
    return kind.startswith(pattern[:-1]) if pattern.endswith("*") else kind == pattern
