"""Copies the audit log of the ledger to files and to the journal, after each commit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hive_core.errors import HiveError
from hive_core.host.storage.event_files import EventFiles
from hive_core.host.systemd import notify
from hive_core.ledger.audit.event_json import number_before, parse_event
from hive_core.ledger.audit.events import AuditLog
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import DAEMON, DAMAGED_EVENT, OPERATOR, Event

log = logging.getLogger(__name__)
PAGE: Final = 500
AGAIN: Final = 2.0
TROUBLE: Final = "event files"
# The journal does not get each recorded call. No text of an agent can contain this string, because
# quotes in texts are escaped, and fields of a note are flat.
_QUIET: Final = '},"kind":"record","operation":'


@dataclass
class EventLog:
    """The copying task.

    It wakes on events, reads one page after the other, and writes in a thread.
    """

    events: AuditLog
    lines: EventFiles
    hive: Callable[[], Hive]
    troubles: dict[str, str]
    journal: str = "most"
    again: float = AGAIN
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _opened: bool = False
    _closed: bool = False

    def on_topics(self, topics: frozenset[str]) -> None:
        if "events" in topics or "tree" in topics:
            self._woken.set()

    async def run(self) -> None:
        """Copy until cancelled. A full or broken disk raises an alarm, and the copy is retried."""
        while True:
            try:
                await self._copy()
            except (OSError, HiveError) as error:
                if self._closed:
                    return
                if TROUBLE not in self.troubles:
                    log.warning("Cannot copy events: %s", error)
                self.troubles[TROUBLE] = f"cannot copy events to {self.lines.folder}: {error}"
                await asyncio.sleep(self.again)
                continue
            self.troubles.pop(TROUBLE, None)
            await self._woken.wait()
            self._woken.clear()

    def close(self) -> None:
        """Stop. The next daemon copies the rest."""
        self._closed = True
        self.lines.close()

    async def _copy(self) -> None:
        """Copy all events that are not copied yet."""
        if not self._opened:
            await asyncio.to_thread(self.lines.open)
            self._opened = True
            if self.lines.at > self.events.last:
                log.warning("The event files are ahead of the ledger: an older ledger was restored")
                self.lines.at = self.events.last
                await asyncio.to_thread(self.lines.rotate)
        if self.lines.at < self.events.base:
            await asyncio.to_thread(self.lines.skip, self.events.base)
        while rows := self.events.raw(self.lines.at, PAGE):
            await asyncio.to_thread(self._write, rows, self.hive())

    def _write(self, rows: list[tuple[int, bytes, str]], hive: Hive) -> None:
        """Write to the files first: they complete what a crash keeps out of the journal."""
        self._append(rows)
        if self.journal == "none":
            return
        for row in rows:
            if self.journal == "all" or _QUIET not in row[2]:
                notify.event(_entry(parse_event(*row), hive))

    def _append(self, rows: list[tuple[int, bytes, str]]) -> None:
        """Append rows to the files, with a gap where pruned notes were in the chain."""
        start, at = 0, self.lines.at
        for index, (seq, _, body) in enumerate(rows):
            if (before := number_before(seq, body)) > at:
                self.lines.append(rows[start:index])
                self.lines.skip(before)
                start = index
            at = seq
        self.lines.append(rows[start:])


def _entry(event: Event, hive: Hive) -> dict[str, str]:
    """An event as fields of the journal."""
    fields = event.fields
    uuid = event.target or event.caller
    name = hive.name(uuid) or str(fields.get("target_name") or fields.get("caller_name") or "")
    parent = hive.topology.parent(name) if name in hive.topology else None
    journal_fields = {
        "HIVE_EVENT": str(event.seq), "HIVE_KIND": event.kind, "HIVE_OP": event.operation,
        "HIVE_CALLER": event.caller, "HIVE_AGENT": name, "HIVE_UUID": uuid,
        "HIVE_PARENT": parent or "", "HIVE_TASK": str(fields.get("task") or ""),
        "HIVE_TRACE_ID": str(fields.get("trace") or ""), "MESSAGE": _sentence(event, name),
        "PRIORITY": str(_priority(event)),
    }  # fmt: skip
    return {key: value for key, value in journal_fields.items() if value}


def _sentence(event: Event, name: str) -> str:
    who = event.caller
    if who not in (OPERATOR, DAEMON):
        who = str(event.fields.get("caller_name") or who)
    call = " ".join(filter(None, (who, event.operation, name if event.target else "")))
    return ": ".join(filter(None, (event.kind, call, event.reason)))


def _priority(event: Event) -> int:
    """The syslog priority: warning for a failure or damage, notice for a refusal, else info."""
    if event.kind in ("crash", "failed", DAMAGED_EVENT):
        return 4
    return 5 if event.allowed is False else 6
