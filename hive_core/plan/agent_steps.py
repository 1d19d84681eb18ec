"""The next steps of one living agent: its socket directory, its unit, its mounts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from uuid import UUID, uuid4, uuid5

from hive_core.model.agents.agent import CLIS
from hive_core.model.agents.machine import DesiredRun, DesiredState, Machine
from hive_core.model.config.settings import HOST_IMAGE, NIX_IMAGE
from hive_core.model.names import is_uuid
from hive_core.plan.actions import (
    JOB_BASES,
    Action,
    AdoptRoot,
    JobKind,
    KillUnit,
    MakeSocketDirectory,
    Mount,
    RunJob,
    ShowStore,
    StartUnit,
    StopUnit,
    Unmount,
)
from hive_core.plan.daemon_actions import (
    DaemonAction,
    Listen,
    RequestRestart,
    ShowConfig,
    ShowIdentity,
    ShowView,
)
from hive_core.plan.desired import Desired, Moment
from hive_core.plan.placement import Placement
from hive_core.plan.state import Phase, Trouble, phase, trouble

ReasonedAction = tuple[Action | DaemonAction, str]
POLL_FIRST, POLL_MOST = 0.005, 0.5  # seconds between checks of a unit whose payload does not run
KILL_AGAIN = 1.0
# The main process has ended, and ExecStopPost records how. A kill would hit only ExecStopPost, and
# the exit would seem unrecorded. systemd bounds its time (TimeoutStopSec).
# https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#ExecStopPost=
STOP_POST: Final = "stop-post"
NOT_UP = "it does not come up"
_JOB_VERSION: Final = 5  # the version that `uuid5` writes
_KEYS = UUID("6b1f0a52-3c57-4d0e-9b6e-0f5c2f0e7d11")


def job_id(uuid: str, kind: JobKind) -> str:
    """The id of a job follows from its work, so a repeated pass starts no second job."""
    return str(uuid5(UUID(uuid), kind))


def is_job_id(text: str) -> bool:
    """Whether `text` is the id of a job, and not the UUID of an agent: its version is another."""
    return is_uuid(text) and UUID(text).version == _JOB_VERSION


def job_id_for_key(key: str, kind: JobKind) -> str:
    """The id of a job that is done for an approval, or for anything else that has a key."""
    return str(uuid5(_KEYS, f"{kind} {key}"))


def new_job_id(kind: JobKind) -> str:
    """The id of a job that nothing asks for twice; `is_job_id` knows it all the same."""
    return job_id_for_key(uuid4().hex, kind)


@lru_cache(maxsize=1 << 14)
def copied_root(uuid: str) -> str:
    """The root that a copy of the agent's image has until it is adopted."""
    return job_id(uuid, JobKind.COPY_TREE)


def job_action(uuid: str, kind: JobKind, image: str | None = None) -> RunJob:
    """The action of a job. Its uid range is a placeholder; the job port picks a free one."""
    target = None if kind is JobKind.COPY_TREE else uuid
    return RunJob(job_id(uuid, kind), kind, JOB_BASES[0], target, image)


def show_actions(desired: Desired, place: Placement, machine: Machine) -> Iterator[ReasonedAction]:
    """Updates of what the agent sees in its socket directory; none for what is up to date."""
    if machine.identity != place.identity:
        yield ShowIdentity(place.uuid, place.document, place.identity), "it changed"
    if machine.view != place.view:
        links = tuple(desired.places.links(place.uuid))
        yield ShowView(place.uuid, links, place.view), "it changed"
    if machine.config != place.config and _takes_config(desired, machine):
        yield ShowConfig(place.uuid, place.config, place.spec.nar or ""), "another is deployed"


def store_actions(desired: Desired, place: Placement, machine: Machine) -> Iterator[ReasonedAction]:
    """Show or hide hived's repositories, where the agent's view of them is not as it should be.

    Only while the agent runs: systemd-nspawn locks what is mounted at the start into the container.
    An agent that loses a repository may hold it open, or have mounted it elsewhere, so it is
    restarted.
    """
    base, outdated = desired.bases.get(place.uuid, 0), _awaits_fresh_start(desired, machine)
    runs = machine.active == "active" and machine.verified and machine.executed and not outdated
    wanted = place.stores if runs else place.stores & machine.stores
    lost = machine.stores - place.stores
    if lost and runs:
        yield RequestRestart(place.uuid), "may still hold a revoked mount"
    for store in sorted(wanted ^ machine.stores):
        why = "access was granted" if store in wanted else "access was revoked"
        yield ShowStore(place.uuid, store, base, store in wanted), why


def _takes_config(desired: Desired, machine: Machine) -> bool:
    """Whether the agent gets its configuration now: it runs, or is about to start.

    Damaged files must not prevent a stop, so an agent that should stop gets none. An agent that is
    about to be restarted gets none before the restart.
    """
    run = desired.runs.get(machine.uuid)
    wanted = run is not None and run.wanted is DesiredState.RUNNING
    return wanted and not _awaits_fresh_start(desired, machine)


def _awaits_fresh_start(desired: Desired, machine: Machine) -> bool:
    """Whether the running unit is about to be replaced by a fresh start."""
    run = desired.runs.get(machine.uuid)
    stale = run is not None and run.wanted is DesiredState.RUNNING and run.nonce != machine.nonce
    return stale and phase(machine) is not Phase.DOWN


@dataclass(slots=True)
class AgentSteps:
    """The steps of one living agent. Beside them it asks for a timer (`wait`) and a start slot."""

    desired: Desired
    place: Placement
    machine: Machine
    moment: Moment
    blocked: bool = False  # a descendant has to go down first
    wait: float | None = None
    wants_slot: bool = False

    @property
    def run(self) -> DesiredRun:
        run = self.desired.runs.get(self.place.uuid)
        return run or DesiredRun(self.place.uuid, DesiredState.STOPPED, 0)

    @property
    def is_settled(self) -> bool:
        """A quick test for "nothing to do", which holds for most agents in most passes."""
        place, machine, run = self.place, self.machine, self.run
        return (
            machine.active == "active"
            and run.wanted is DesiredState.RUNNING
            and machine.nonce == run.nonce
            and machine.verified
            and machine.executed
            and machine.mounted
            and machine.socket_directory
            and machine.listening
            and not machine.fault
            and machine.identity == place.identity
            and machine.view == place.view
            and machine.config == place.config
            and machine.stores == place.stores
            and machine.slice == place.slice_unit
            and (place.uuid not in self.desired.starts or not self._has_failed)
        )

    def actions(self) -> Iterator[ReasonedAction]:
        """The actions that bring the agent to its requested state, by the phase of its machine."""
        yield from self._socket_directory()
        match phase(self.machine):
            case Phase.DOWN:
                yield from self._when_down()
            case Phase.GOING:
                yield from self._when_stopping()
            case Phase.UP | Phase.COMING:
                yield from self._when_up()

    def _socket_directory(self) -> Iterator[ReasonedAction]:
        uuid, machine, place = self.place.uuid, self.machine, self.place
        base = self.desired.bases.get(uuid)
        if base is None:
            return
        if not machine.socket_directory:
            yield MakeSocketDirectory(uuid), "it is missing"
        if not machine.listening:
            yield Listen(uuid, base), "it is closed"
        yield from show_actions(self.desired, place, machine)
        yield from store_actions(self.desired, place, machine)

    def must_stop(self) -> str:
        """Why a unit that is up must stop; empty when it may stay."""
        run, machine = self.run, self.machine
        reasons = (
            (run.wanted is not DesiredState.RUNNING, run.reason or run.wanted.value),
            (machine.nonce != run.nonce, "a fresh start is wanted"),
            (bool(machine.fault), machine.fault),
            (machine.slice != self.place.slice_unit, "it belongs to another slice"),
            (self._trouble is Trouble.PARKED, "it is parked"),
            (self._is_overdue, NOT_UP),
        )
        return next((why for holds, why in reasons if holds), "")

    @property
    def _is_overdue(self) -> bool:
        """Whether systemd calls the unit active, but its payload has not started in time.

        systemd itself ends a start that takes too long, by the `patience` of the action.
        """
        up = phase(self.machine) is Phase.UP and not self._is_healthy
        deadline = self.machine.since + self.desired.settings.grace.start
        return up and self.moment.monotonic >= deadline

    @property
    def _is_healthy(self) -> bool:
        return self.machine.verified and self.machine.executed

    @property
    def _trouble(self) -> Trouble:
        return trouble(self.run, self.desired.starts.get(self.place.uuid))

    @property
    def _has_failed(self) -> bool:
        return self._trouble is not Trouble.NONE

    def _when_up(self) -> Iterator[ReasonedAction]:
        uuid, name = self.place.uuid, self.place.name
        if why := self.must_stop():
            if self.machine.fault or why == NOT_UP:
                yield KillUnit(uuid, name), why  # counts as a failure, which a stop does not
            elif not self.blocked or uuid in self.desired.held:  # what is revoked goes at once
                yield (KillUnit if self.run.grace == 0 else StopUnit)(uuid, name), why
        elif not self._is_healthy:
            self.wait = self.moment.monotonic + self._pause
        elif not self.machine.mounted and (mount := self._mount()):
            yield mount, "it is missing"

    @property
    def _pause(self) -> float:
        """Seconds until the next check. The payload starts soon after the unit becomes active."""
        if phase(self.machine) is Phase.COMING:
            return POLL_MOST
        age = self.moment.monotonic - self.machine.since
        return min(POLL_MOST, max(POLL_FIRST, age / 4))

    def _when_stopping(self) -> Iterator[ReasonedAction]:
        deadline = self.machine.since + self.run.grace
        if self.machine.sub == STOP_POST:
            self.wait = self.moment.monotonic + KILL_AGAIN
        elif self.machine.fault or self.moment.monotonic >= deadline:
            yield KillUnit(self.place.uuid, self.place.name), "its grace period is over"
            self.wait = self.moment.monotonic + KILL_AGAIN
        else:
            self.wait = deadline

    def _when_down(self) -> Iterator[ReasonedAction]:
        if not self._may_start():
            if self.machine.mounted:
                yield Unmount(self.place.uuid), "it does not run"
            return
        starts = self.desired.starts.get(self.place.uuid)
        pause = starts.next_at - self.moment.wall if starts and self._has_failed else 0.0
        if pause > 0:
            self.wait = self.moment.monotonic + pause
            if self.machine.mounted:
                yield Unmount(self.place.uuid), "it waits before its next try"
            return
        self.wants_slot = True

    def _may_start(self) -> bool:
        unbuilt = self.place.image == NIX_IMAGE and self.place.spec.system is None
        unwanted = (
            self.run.wanted is not DesiredState.RUNNING or self.place.uuid in self.desired.held
        )
        if unwanted or unbuilt or self.place.uuid not in self.desired.bases:
            return False
        match self._trouble:
            case Trouble.PARKED:
                return False
            case Trouble.FAILED:
                starts = self.desired.starts.get(self.place.uuid)
                return starts is not None and starts.returns
            case Trouble.NONE:
                return True

    def _mount(self) -> Mount | None:
        base = self.desired.bases.get(self.place.uuid)
        if base is None:
            return None
        place = self.place
        return Mount(place.uuid, place.lineage, base, place.image, *place.disk_bounds)

    def start_actions(self) -> Iterator[ReasonedAction]:
        """The actions that start the unit, once there is a slot for it."""
        place, why = self.place, "it should run"
        if place.image not in (HOST_IMAGE, NIX_IMAGE) and not self.machine.root:
            yield job_action(place.uuid, JobKind.COPY_TREE, place.image), why
            yield AdoptRoot(copied_root(place.uuid), place.uuid), why
        if self.machine.mounted:
            yield Unmount(place.uuid), "each start has a fresh root"
        if mount := self._mount():
            yield mount, why
            yield self._start_unit(mount.base), why

    def _start_unit(self, base: int) -> StartUnit:
        place = self.place
        return StartUnit(
            uuid=place.uuid, name=place.name, nonce=self.run.nonce, spec=place.spec_hash,
            base=base, slice=place.slice, limits=place.limits, image=place.image,
            boot=place.spec.boot, parent=place.parent, command=place.spec.program,
            system=place.spec.system if place.image == NIX_IMAGE else None,
            cli=place.spec.runtime if place.spec.runtime in CLIS else None,
            patience=max(1, round(1000 * self.desired.settings.grace.start)),
        )  # fmt: skip
