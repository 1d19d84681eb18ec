"""Commits made by hand. Valid ones are adopted; others are set aside.

They never block other work (row H2).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hive_core.broker.audit import REFUSED
from hive_core.broker.core import Broker
from hive_core.broker.outcome import EVENTS
from hive_core.errors import Busy, Conflict, HiveError, InboxFull, InvalidArgument
from hive_core.host.git.recovery import Judge, Recovery, RecoveryKind
from hive_core.host.git.repo import MetaRepo
from hive_core.ledger.agents.archives import Archive
from hive_core.ledger.audit.events import AuditEntry
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.letters import NewMessage
from hive_core.model.agents.capability import check_grantable
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.push import NO_OBJECT
from hive_core.model.config.settings import HostLimits, Settings
from hive_core.model.wire.record import DAEMON, OPERATOR, Relation
from hive_core.reconcile import placed_agents
from hive_core.reconcile.observed import ObservedState

log = logging.getLogger(__name__)
MOVED: Final = "moved"
LOOK_EVERY: Final = 5  # checks of the branch alone, of which there is one every second
CHECKED_EVERY: Final = 60  # full checks of the branch


def judge(ledger: Ledger, limits: HostLimits) -> Judge:
    """The checks that git cannot make: tombstones of destroyed agents, limits, flake.lock."""

    def look(before: Hive, hive: Hive) -> None:
        if hive.lock != before.lock:
            reason = "flake.lock can only be changed by request_update_meta_inputs"
            raise InvalidArgument(reason, field="flake.lock")
        for uuid, name in hive.names.items():
            if before.name(uuid) is None and ledger.archives.is_tombstone(uuid):
                reason = f"the uuid of {name} belonged to a destroyed agent"
                raise InvalidArgument(reason, field="uuid")
        _check_rights(before, hive)
        if len(hive.specs) > limits.agents:
            raise InvalidArgument(f"more than {limits.agents} agents", field="topology")

    return look


def _check_rights(before: Hive, hive: Hive) -> None:
    """A commit can grant only capabilities that exist and have an effect.

    Capabilities held before stay.
    """
    for name, spec in hive.specs.items():
        old = before.name(spec.id)
        held = before.spec(old).capabilities if old is not None else ()
        if spec.capabilities != held:
            try:
                check_grantable(set(spec.capabilities) - set(held))
            except InvalidArgument as error:
                raise InvalidArgument(f"{name}: {error.reason}", field="capabilities") from error


@dataclass
class ManualCommits:
    """Compares the branch with the commit in force, and adopts or refuses commits by hand."""

    repo: MetaRepo
    broker: Broker
    look: ObservedState
    _looks: int = 0
    _glances: int = 0

    @property
    def _ledger(self) -> Ledger:
        return self.broker.services.ledger

    @property
    def _settings(self) -> Settings:
        return self.broker.services.settings

    def check_quickly(self) -> None:
        """Compare the branch, which is cheap. Every few seconds, also check everything else.

        Called once a second.
        """
        self._glances += 1
        if self._glances % LOOK_EVERY == 0 or not self.repo.is_at(self.broker.hive.commit):
            self.check_branch()

    def check_expected_head(self, old: str) -> None:
        """Raise Conflict unless the branch is at `old`, git's null object name for no branch."""
        head = self.broker.hive.commit or NO_OBJECT
        if old != head or not self.repo.is_at(self.broker.hive.commit):
            raise Conflict("cannot push main: it has moved; pull first")

    def push(self, old: str, new: str) -> None:
        """Judge a pushed commit. A refused one is set aside, and the Conflict says why."""
        self.repo.move_branch("" if old == NO_OBJECT else old, new)
        self.check_branch()
        if self.repo.is_adopted(self.broker.hive.commit, new):
            return
        reason = dict(self.repo.refusals()).get(new, "")
        if not reason:
            raise Busy("cannot judge the commit now: hived tries again; see `hive status`")
        raise Conflict(f"{new[:12]} is refused: {reason}", commit=new)

    def check_branch(self) -> None:
        """Judge a branch that moved, and restore work tree files that were changed."""
        head = self.broker.hive.commit
        try:
            if not self.repo.is_at(head):
                look = judge(self._ledger, self._settings.limits)
                self.apply_recovery(self.repo.recover(head, look))
                if not self.repo.is_at(self.broker.hive.commit):  # the daemon added a commit on top
                    self.repo.recover(self.broker.hive.commit, look)
            if self.repo.refresh_worktree():  # False while an operator's git is using it
                self._restore_files()
            self._look_for_damage()
        except HiveError as error:
            log.warning("Cannot check the meta repository: %s", error)
            self.look.faults = [error.reason]

    def _restore_files(self) -> None:
        """Restore a changed work tree; report files that belong to no commit."""
        changed = self.repo.changed_files()
        if changed and (restored := self.repo.restore_files()):
            log.warning("Restored changed files of the meta repository: %s", ", ".join(restored))
            changed = self.repo.changed_files()
        self.look.changed_paths = changed

    def _look_for_damage(self) -> None:
        """Verify the repository at intervals, to report damage before an object is needed."""
        if self._looks % CHECKED_EVERY == 0:
            self.look.faults = [damage.text for damage in self.repo.verify()]
        self._looks += 1

    def apply_recovery(self, recovery: Recovery) -> None:
        """Adopt valid commits; record refused ones in the audit log."""
        if recovery.kind is RecoveryKind.ADOPT and recovery.hive is not None:
            before, after = self.broker.hive, recovery.hive
            reason = "; ".join(
                f"{commit.oid[:12]} by {commit.author}" for commit in recovery.commits
            )
            if recovery.placed:
                reason += f"; placed under {self.repo.root_agent}: {', '.join(recovery.placed)}"
            log.info("Adopting commits made by hand: %s", reason)
            self.broker.adopt(
                after, recovery.head, reason, lambda: self._record_changes(before, recovery)
            )
        elif recovery.kind is RecoveryKind.RESTORED:
            self._record_refusal(recovery.head, recovery.reason)
        # Includes refusals that an earlier daemon did not record before it was killed.
        for oid, refusal in self.repo.unreported_refusals():
            self._record_refusal(oid, refusal)
            self.repo.mark_reported(oid)
        self.look.parked = self.repo.refusals()

    def _record_refusal(self, oid: str, reason: str) -> None:
        """Record a refused commit or a damaged branch in the audit log (row H27)."""
        log.warning("Reset the branch of the meta repository: %s", reason)
        entry = AuditEntry(
            kind=REFUSED, caller=OPERATOR, operation="hand", target="", allowed=False,
            rule="hand commit", reason=reason, commit=oid,
            request="", now=self.broker.services.clock.now(),
        )  # fmt: skip
        with self._ledger.transaction():
            self.broker.audit.write(entry)
        self.broker.touch({EVENTS})

    def _record_changes(self, before: Hive, recovery: Recovery) -> set[str]:
        """Write the ledger rows that operations would write for the same changes."""
        after = recovery.hive or before
        now, wakes = self.broker.services.clock.now(), set[str]()
        if recovery.placed:
            placed_agents.record_placed_agents(
                self._ledger, [after.spec(name).id for name in recovery.placed], now
            )
        for uuid in sorted(before.names.keys() - after.names.keys()):
            wakes |= self._archive(before, uuid, now)
        for uuid in sorted(after.names.keys() - before.names.keys()):
            self._ledger.ranges.allocate(uuid, self._settings.uid_start, now)
            self._ledger.runs.want(uuid, DesiredState.RUNNING, now, reason="committed by hand")
            wakes.add(f"run:{uuid}")
        for uuid in sorted(after.names.keys() & before.names.keys()):
            wakes |= self._notify_of_move(before, after, uuid, now)
        return wakes

    def _archive(self, before: Hive, uuid: str, now: float) -> set[str]:
        name = before.names[uuid]
        spec, parent = before.specs[name], before.topology.parent(name)
        above = before.specs[parent].id if parent else None
        expires = now + self._settings.retention.archive
        lineage = [before.spec(ancestor).id for ancestor in reversed(before.topology.lineage(name))]
        archive = Archive(
            uuid, name, spec.model_dump_json(), above, now, expires, above=tuple(lineage)
        )
        self._ledger.archives.put(archive)
        self._ledger.runs.want(uuid, DesiredState.STOPPED, now, reason="destroyed")
        dead = self._ledger.messages.dead_letter(uuid, "the recipient was destroyed", now)
        return {f"run:{uuid}", *(f"inbox:{message.sender}" for message in dead)}

    def _notify_of_move(self, before: Hive, after: Hive, uuid: str, now: float) -> set[str]:
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
