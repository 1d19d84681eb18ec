"""Counting exits: each one once, with a message to the parent when it was a crash (row H23)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from hive_core.errors import HiveError, InboxFull
from hive_core.ledger.events import Entry
from hive_core.ledger.letters import NewMessage
from hive_core.ledger.store import Ledger
from hive_core.model.machine import Exit, Wanted
from hive_core.model.names import agent_unit
from hive_core.model.record import DAEMON, LogLine, LogQuery, Relation
from hive_core.plan.failure import Case, Verdict
from hive_core.plan.place import Places
from hive_core.ports import Journal
from hive_core.reconcile.goals import ENDED

log = logging.getLogger(__name__)
Lines = Sequence[LogLine]
CRASH = "container_crash"
PRIORITY = 1
BODY_MOST = 16_384


@dataclass(frozen=True, slots=True)
class Counted:
    """One exit with what it means, ready to be written down."""

    case: Case
    end: Exit
    verdict: Verdict

    @property
    def why(self) -> str:
        """`bob crashed: killed with KILL; next try in 2 s`."""
        place, starts = self.case.place, self.verdict.starts
        if self.verdict.parked:
            then = f"parked after {len(starts.failures)} failures"
        elif starts.returns:
            then = f"next try in {starts.next_at - starts.failures[-1]:.0f} s"
        else:
            then = "it stays down until it is started"
        return f"{place.name} crashed: {self.end.text}; {then}"


async def last_lines(journal: Journal, counted: Counted) -> Sequence[LogLine]:
    """What the agent wrote last; a journal that does not answer must not hide the crash."""
    place, settings = counted.case.place, counted.case.settings
    query = LogQuery(
        uuid=place.uuid, unit=agent_unit(place.name), lines=settings.grace.crash_lines,
        boot=place.spec.boots, invocation=counted.end.invocation,
    )  # fmt: skip
    try:
        return await journal.read(query) if query.lines else ()
    except (HiveError, TimeoutError) as error:
        log.warning("Cannot read the last lines of %s: %s", place.name, error)
        return ()


def write(ledger: Ledger, places: Places, found: tuple[Counted, Lines], now: float) -> set[str]:
    """Inside a transaction: the count, the wish, the event, the message. Topics to touch."""
    counted, lines = found
    place, verdict = counted.case.place, counted.verdict
    ledger.starts.put(place.uuid, verdict.starts)
    if verdict.ended:
        reason = f"{ENDED}: {counted.end.text}"
        ledger.runs.want(place.uuid, Wanted.STOPPED, now, reason=reason)
    if not (verdict.crash or verdict.ended):
        return set()
    ledger.events.append(Entry(
        kind="crash" if verdict.crash else "exit", caller=DAEMON, operation="watch",
        target=place.uuid, allowed=None, rule="", reason=counted.why if verdict.crash else
        f"{place.name} {counted.end.text}", commit=places.hive.commit, request="",
        fields={"target_name": place.name, "invocation": counted.end.invocation,
                "result": counted.end.result, "status": counted.end.status,
                "parked": verdict.parked}, now=now,
    ))  # fmt: skip
    return {"events", *(_tell(ledger, places, counted, lines, now) if verdict.crash else ())}


def _tell(
    ledger: Ledger, places: Places, counted: Counted, lines: Sequence[LogLine], now: float
) -> set[str]:
    place = counted.case.place
    if place.parent is None:
        return set()
    parent = places.named(place.parent)
    tail = "\n".join(line.text for line in lines)
    body = f"{counted.why}\n\nlast lines:\n{tail}" if tail else counted.why
    letter = NewMessage(
        sender=DAEMON, sender_name=DAEMON, recipient=parent.uuid, recipient_name=parent.name,
        relation=Relation.DAEMON, body=body[:BODY_MOST], kind=CRASH, priority=PRIORITY,
    )  # fmt: skip
    with suppress(InboxFull):  # who does not read its mail misses this; the event stays
        ledger.messages.send(letter, now)
    return {f"inbox:{parent.uuid}"}
