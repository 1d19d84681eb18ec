"""The next steps for a destroyed agent: stop it, archive its node, delete the archive when due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hive_core.model.agents.machine import Machine
from hive_core.plan.actions import (
    ArchiveNode,
    DropArchive,
    DropRoot,
    JobKind,
    KillUnit,
    RemoveSocketDirectory,
    StopUnit,
    Unmount,
)
from hive_core.plan.agent_steps import (
    KILL_AGAIN,
    STOP_POST,
    ReasonedAction,
    copied_root,
    job_action,
)
from hive_core.plan.daemon_actions import Forget, StopListening
from hive_core.plan.desired import Desired, Moment
from hive_core.plan.state import Phase, phase

WHY = "it was destroyed"
EXPIRED = "its archive expired"


def unit_name(machine: Machine) -> str:
    """The agent's name out of its unit's: `hive-agent@NAME.service`."""
    return machine.unit.removeprefix("hive-agent@").removesuffix(".service")


@dataclass(slots=True)
class DestroyedAgentSteps:
    """The steps of one destroyed agent.

    `busy`: other nodes lie below its own, or this plan moves it.
    """

    desired: Desired
    machine: Machine
    moment: Moment
    expires: float
    busy: bool = False
    wait: float | None = None

    def actions(self) -> Iterator[ReasonedAction]:
        uuid, name = self.machine.uuid, unit_name(self.machine)
        match phase(self.machine):
            case Phase.UP | Phase.COMING:
                yield StopUnit(uuid, name), WHY
            case Phase.GOING:
                deadline = self.machine.since + self.desired.settings.grace.stop
                if self.machine.sub == STOP_POST:
                    self.wait = self.moment.monotonic + KILL_AGAIN
                elif self.moment.monotonic >= deadline:
                    yield KillUnit(uuid, name), "its grace period is over"
                    self.wait = self.moment.monotonic + KILL_AGAIN
                else:
                    self.wait = deadline
            case Phase.DOWN:
                yield from self._clear(uuid)

    def _clear(self, uuid: str) -> Iterator[ReasonedAction]:
        machine = self.machine
        if machine.listening:
            yield StopListening(uuid), WHY
        if machine.mounted:
            yield Unmount(uuid), WHY
        # A unit that came up late leaves a record of its exit behind a closed directory.
        if machine.socket_directory or machine.exit is not None:
            yield RemoveSocketDirectory(uuid), WHY
        for root, there in ((uuid, machine.root), (copied_root(uuid), machine.copying)):
            if there:
                yield job_action(root, JobKind.PURGE_ROOT), WHY
                yield DropRoot(root), WHY
        if machine.node and not self.busy:
            yield ArchiveNode(machine.node, uuid), WHY
        elif not machine.node:
            yield from self._expire(uuid)

    def _expire(self, uuid: str) -> Iterator[ReasonedAction]:
        pause = self.expires - self.moment.wall
        if pause > 0:
            self.wait = self.moment.monotonic + pause
            return
        if self.machine.archived:
            yield job_action(uuid, JobKind.PURGE_ARCHIVE), EXPIRED
            yield DropArchive(uuid), EXPIRED
        yield Forget(uuid), EXPIRED
