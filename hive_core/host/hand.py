"""Commits made by hand: judged, adopted or parked; never in the way of anything else (row H2)."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hive_core.broker.core import Broker
from hive_core.errors import HiveError, InboxFull, InvalidArgument
from hive_core.host.git.recovery import Kind, Recovery
from hive_core.host.git.repo import MetaRepo
from hive_core.ledger.archives import Archive
from hive_core.ledger.letters import NewMessage
from hive_core.ledger.store import Ledger
from hive_core.model.hive import Hive
from hive_core.model.machine import Wanted
from hive_core.model.record import DAEMON, Relation
from hive_core.model.settings import Settings
from hive_core.reconcile.look import Look

log = logging.getLogger(__name__)
MOVED: Final = "moved"


@dataclass
class HandCommits:
    """Compares the branch with what is in force, whenever somebody says that it moved."""

    repo: MetaRepo
    broker: Broker
    look: Look

    @property
    def _ledger(self) -> Ledger:
        return self.broker.world.ledger

    @property
    def _settings(self) -> Settings:
        return self.broker.world.settings

    def look_again(self) -> None:
        """The branch may have moved, or the work tree been changed."""
        try:
            if self.repo.head() != self.broker.hive.commit:
                self.settle(self.repo.recover(self.broker.hive.commit, self.judge))
            if self.repo.refresh():  # else somebody's git is at work in it right now
                self.look.left_changed = self.repo.dirty()
        except HiveError as error:
            log.warning("Cannot look at the meta repo: %s", error)

    def judge(self, hive: Hive) -> None:
        """What speaks against a valid hive: an identity that was somebody's before."""
        before = self.broker.hive
        for uuid, name in hive.names.items():
            if before.name(uuid) is None and self._ledger.archives.is_tombstone(uuid):
                reason = f"the uuid of {name} belonged to a destroyed agent"
                raise InvalidArgument(reason, field="uuid")
        if len(hive.specs) > self._settings.limits.agents:
            reason = f"more than {self._settings.limits.agents} agents"
            raise InvalidArgument(reason, field="topology")

    def settle(self, found: Recovery) -> None:
        """Take over what was found, or tell that it was parked."""
        if found.kind is Kind.ADOPT and found.hive is not None:
            before = self.broker.hive
            told = "; ".join(f"{each.oid[:12]} by {each.author}" for each in found.commits)
            log.info("Adopting commits made by hand: %s", told)
            self.broker.adopt(found.hive, found.head, told)
            self._follow(before, self.broker.hive)
        elif found.kind is Kind.REFUSED:
            log.warning("Refused a commit made by hand: %s", found.reason)
        self.look.parked = self.repo.refused()

    def _follow(self, before: Hive, after: Hive) -> None:
        """The rows that an operation would have written along with such a change."""
        now, wakes = self.broker.world.clock.now(), set[str]()
        gone = before.names.keys() - after.names.keys()
        with self._ledger.transaction():
            for uuid in sorted(gone):
                wakes |= self._archive(before, uuid, now)
            for uuid in sorted(after.names.keys() - before.names.keys()):
                self._ledger.ranges.allocate(uuid, self._settings.uid_start)
                self._ledger.runs.want(uuid, Wanted.RUNNING, now, reason="committed by hand")
                wakes.add(f"run:{uuid}")
            for uuid in sorted(after.names.keys() & before.names.keys()):
                wakes |= self._tell_moved(before, after, uuid, now)
        self.broker.touch(wakes)
        for listener in self.broker.listeners:
            listener(frozenset(wakes))

    def _archive(self, before: Hive, uuid: str, now: float) -> set[str]:
        name = before.names[uuid]
        spec, parent = before.specs[name], before.topology.parent(name)
        above = before.specs[parent].id if parent else None
        expires = now + self._settings.retention.archive
        archive = Archive(uuid, name, spec.model_dump_json(), above, now, expires)
        self._ledger.archives.put(archive)
        self._ledger.runs.want(uuid, Wanted.STOPPED, now, reason="destroyed")
        dead = self._ledger.messages.bury(uuid, "the recipient was destroyed", now)
        return {f"run:{uuid}", *(f"inbox:{message.sender}" for message in dead)}

    def _tell_moved(self, before: Hive, after: Hive, uuid: str, now: float) -> set[str]:
        name, parent = after.names[uuid], after.topology.parent(after.names[uuid])
        if before.topology.parent(before.names[uuid]) == parent:
            return set()
        home = "you are a root now" if parent is None else f"your parent is {parent} now"
        letter = NewMessage(
            sender=DAEMON, sender_name=DAEMON, recipient=uuid, recipient_name=name,
            relation=Relation.DAEMON, body=f"you were moved: {home}", kind=MOVED, priority=1,
        )  # fmt: skip
        with suppress(InboxFull):
            self._ledger.messages.send(letter, now)
        return {f"inbox:{uuid}"}
