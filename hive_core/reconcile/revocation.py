"""Revokes access to files after a move: restarts the agents that may hold them (attack 58).

The kernel cannot list all open handles of a process: descriptors in flight, mappings, its own
mounts. So the agents that lost access, and all agents below them, are stopped together. While they
are stopped, a job copies each of their files that has a hard link elsewhere. Then they are started
again. The ledger records each step before it is done, so a new daemon continues from there.
`StorageApplier` applies the storage steps and announces each move beforehand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from hive_core.errors import HiveError, Internal
from hive_core.host.systemd.job_exchange import exchange
from hive_core.ledger.agents.revocations import NewRevocation
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.machine import DesiredRun, DesiredState, Machine
from hive_core.model.agents.revocation import Revocation, RevocationState
from hive_core.model.config.review import VERDICT, VERDICT_MOST, Verdict
from hive_core.model.wire.record import DAEMON
from hive_core.plan.actions import JOB_BASES, JobKind, MoveNode, RunJob
from hive_core.plan.agent_steps import job_id_for_key
from hive_core.plan.desired import ReconcilePlan, ReconcileStep
from hive_core.plan.placement import Placement
from hive_core.plan.revocation import agents_left_running, agents_losing_access
from hive_core.plan.state import Phase, Trouble, phase, trouble
from hive_core.reconcile.deploy.background_tasks import BackgroundTasks
from hive_core.reconcile.jobs.goals import MOVED, RESTARTING
from hive_core.reconcile.runner import ActionRunner, restart

log = logging.getLogger(__name__)
LOOK: Final = 0.5  # seconds between checks of agents that may finish their task first
IDLE: Final = "idle"
_NAMES_MOST: Final = 64  # in an event
_BACK_MOST: Final = 1000  # restarted agents that the job waits for
_S = RevocationState


@dataclass
class Revoker:
    """Carries out revocations. Each pass calls `advance`, which advances each by one step."""

    runner: ActionRunner
    tasks: BackgroundTasks

    @classmethod
    def build(
        cls, work: ActionRunner, wake: Callable[[], None], fatal: Callable[[BaseException], None]
    ) -> Self:
        return cls(work, BackgroundTasks(work.ports.clock, lambda _: wake(), fatal))

    @property
    def busy(self) -> bool:
        return bool(self.tasks.busy)

    def announce(self, moves: Iterable[MoveNode]) -> None:
        """Record revocations before nodes move, where no call has recorded them.

        This is the case after a manual commit.
        """
        look, ledger, now = (
            self.runner.observed,
            self.runner.ports.ledger,
            self.runner.ports.clock.now(),
        )
        wanted = list(self._moves_without_revocation(moves))
        if not wanted:
            return
        with ledger.transaction():
            for uuid, lost in wanted:
                name = look.places.by_uuid[uuid].name
                job = ledger.jobs.create("move", DAEMON, {uuid: MOVED}, now)
                ledger.revocations.create(NewRevocation(job.id, uuid, name, lost), now)
        look.cache.refresh(())

    def _moves_without_revocation(
        self, moves: Iterable[MoveNode]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        places, known = self.runner.observed.places.by_uuid, self.runner.observed.cache
        asked = {uuid for job in known.jobs.values() for uuid in job.goals}
        asked |= {revocation.agent for revocation in known.revocations.values()}
        shorts = {uuid[:8]: uuid for uuid in places}
        for action in moves:
            uuid = shorts.get(action.target[-1])
            lost = [short for short in action.source[:-1] if short not in action.target]
            above = tuple(shorts[short] for short in lost if short in shorts)
            if uuid is not None and uuid not in asked and above:
                yield uuid, above

    def advance(self) -> None:
        """Take each open revocation one step further."""
        for revocation in list(self.runner.observed.cache.revocations.values()):
            if str(revocation.id) not in self.tasks.busy:
                self._advance(revocation)

    def _advance(self, revocation: Revocation) -> None:
        """Do what the state of a revocation asks for."""
        match revocation.state:
            case _S.WAITING if not revocation.restart:
                self._start_split(revocation, "leave")
            case _S.WAITING:
                self._restart_when_due(revocation)
            case _S.RESTARTING if self._are_all_down(revocation):
                self._start_split(revocation, "end")
            case _S.RESTARTING:
                self._restart_newcomers(revocation)
            case _S.LEFT if not agents_left_running(revocation, self.runner.observed.places):
                self._step(revocation, "close")
            case _S.CLOSING:
                self._start_split(revocation, "end")
            case _:
                pass

    # Stopping

    def _restart_when_due(self, revocation: Revocation) -> None:
        """Restart agents that lost access, when they are idle or at the latest time."""
        look, clock = self.runner.observed, self.runner.ports.clock
        agents = agents_losing_access(revocation, look.places)
        if revocation.latest is not None and clock.now() < revocation.latest:
            up = (uuid for uuid in agents if not self._is_down(uuid))
            if any(look.activity(uuid) != IDLE for uuid in up):
                self._note(revocation, agents)
                self.tasks.requeue_at(str(revocation.id), clock.monotonic() + LOOK)
                return
        with self.runner.ports.ledger.transaction():
            self.runner.ports.ledger.revocations.set_nonces(revocation.id, dict.fromkeys(agents, 0))
            self._request_restarts(revocation, self._runs_to_restart(agents))
            self.runner.ports.ledger.revocations.advance(revocation.id, "restart", clock.now())
        self._requeue_all(revocation, agents)

    def _restart_newcomers(self, revocation: Revocation) -> None:
        """Restart agents that moved below a stopped one since then and are still running."""
        agents = agents_losing_access(revocation, self.runner.observed.places) - revocation.notified
        up = {uuid for uuid in agents if self._is_up(uuid)}
        if runs := [*self._runs_to_restart(up)]:
            with self.runner.ports.ledger.transaction():
                self._request_restarts(revocation, runs)
            self._requeue_all(revocation, up)

    def _request_restarts(self, revocation: Revocation, runs: Iterable[DesiredRun]) -> None:
        """Request a restart of every agent that lost access."""
        why = f"{revocation.name} is no longer below it"
        nonces = {run.agent: restart(self.runner.ports, run, why) for run in runs}
        self.runner.ports.ledger.revocations.set_nonces(revocation.id, nonces)

    def _note(self, revocation: Revocation, agents: frozenset[str]) -> None:
        """Record the agents now: before their restart they may move with their open handles."""
        if new := agents - revocation.nonces.keys():
            with self.runner.ports.ledger.transaction():
                self.runner.ports.ledger.revocations.set_nonces(
                    revocation.id, dict.fromkeys(new, 0)
                )
            self.runner.observed.cache.refresh(())

    def _runs_to_restart(self, agents: Iterable[str]) -> Iterator[DesiredRun]:
        """The runs of agents that are up or starting. A failed agent that is down is left down."""
        look = self.runner.observed
        for uuid in agents:
            run = look.cache.runs.get(uuid)
            if run is None or run.wanted is not DesiredState.RUNNING:
                continue
            failed = trouble(run, look.cache.starts.get(uuid)) is not Trouble.NONE
            if not (failed and self._is_down(uuid)):
                yield run

    def _is_up(self, uuid: str) -> bool:
        machine = self.runner.observed.machines.get(uuid) or Machine(uuid)
        return phase(machine) is not Phase.DOWN or uuid in self.runner.starting

    def _is_down(self, uuid: str) -> bool:
        machine = self.runner.observed.machines.get(uuid) or Machine(uuid)
        there = uuid in self.runner.busy or uuid in self.runner.starting
        return phase(machine) is Phase.DOWN and not there

    def _are_all_down(self, revocation: Revocation) -> bool:
        agents = agents_losing_access(revocation, self.runner.observed.places)
        agents |= {revocation.agent} if revocation.came_back else set()
        return all(map(self._is_down, agents)) and self._is_in_place(revocation)

    def _is_in_place(self, revocation: Revocation) -> bool:
        """Whether the agent's node is in its new place, out of reach of agents that lost access."""
        place = self.runner.observed.places.by_uuid.get(revocation.agent)
        machine = self.runner.observed.machines.get(revocation.agent)
        node = machine.node if machine is not None else ()
        return node == (() if place is None else place.lineage)

    # Hard links

    def _start_split(self, revocation: Revocation, event: str) -> None:
        if self._is_in_place(revocation):
            self.tasks.start(str(revocation.id), self._run_split(revocation, event))

    async def _run_split(self, revocation: Revocation, event: str) -> None:
        """Give linked files inodes of their own, in a job; then take the next state."""
        key = f"revocation {revocation.id}"
        try:
            links = await self._own_inodes(revocation)
        except HiveError as error:
            text = f"cannot revoke access to {revocation.name}: {error}"
            self.runner.observed.troubles[key] = text
            raise
        self.runner.observed.troubles.pop(key, None)
        self._step(revocation, event, links)

    async def _own_inodes(self, revocation: Revocation) -> int:
        """Separate hard links to other nodes; return the number of separated names."""
        links = 0.0
        for place in self._nodes(revocation):
            id_ = job_id_for_key(f"{revocation.id} {place.uuid}", JobKind.OWN_INODES)
            with exchange(self.runner.ports.settings.paths.work, id_) as box:
                await self.runner.ports.jobs.run(
                    RunJob(id_, JobKind.OWN_INODES, JOB_BASES[0], place.uuid, None, place.lineage)
                )
                said = Verdict.read(box.read(VERDICT, VERDICT_MOST))
            if not said.ok:
                raise Internal(f"job own_inodes: {said.reason}")
            links += dict(said.figures).get("links", 0)
        return int(links)

    def _nodes(self, revocation: Revocation) -> list[Placement]:
        """Nodes whose files must have no link elsewhere. A node includes the nodes below it.

        Ancestors of the agent are left out: the agent runs within their nodes and changes its
        files.
        """
        places, machines = self.runner.observed.places.by_uuid, self.runner.observed.machines
        agents = agents_losing_access(revocation, self.runner.observed.places)
        agents |= {revocation.agent} if revocation.came_back else set()
        if revocation.agent in places:
            agents -= {place.uuid for place in self.runner.observed.places.above(revocation.agent)}
        placements = [
            places[uuid] for uuid in agents
            if uuid in places and uuid in machines and machines[uuid].node == places[uuid].lineage
        ]  # fmt: skip
        nodes = {place.lineage for place in placements}
        return [
            place for place in sorted(placements, key=lambda place: place.lineage)
            if not any(place.lineage[:depth] in nodes for depth in range(1, len(place.lineage)))
        ]  # fmt: skip

    # Finishing

    def _step(self, revocation: Revocation, event: str, links: int = 0) -> None:
        ledger, now = self.runner.ports.ledger, self.runner.ports.clock.now()
        agents = agents_losing_access(revocation, self.runner.observed.places)
        topics = {f"job:{revocation.job}"}
        with ledger.transaction():
            after = ledger.revocations.advance(revocation.id, event, now)
            if event != "close":
                topics |= self._record_result(after, links)
        self._requeue_all(revocation, agents)
        self.runner.broker.touch(frozenset(topics))

    def _record_result(self, revocation: Revocation, links: int) -> set[str]:
        """Record the event and the progress of the job. Call inside a transaction."""
        ledger, now = self.runner.ports.ledger, self.runner.ports.clock.now()
        hive = self.runner.observed.places.hive
        lost, agents = (
            sorted(hive.name(uuid) or uuid for uuid in uuids)
            for uuids in (revocation.lost, revocation.notified)
        )
        done = revocation.state is _S.DONE
        job = ledger.jobs.get(revocation.job)
        if job is not None and job.ended is None:
            again = sorted(revocation.notified)[:_BACK_MOST]
            news: dict[str, object] = {"revoked": now, RESTARTING: again} if done else {}
            ledger.jobs.progress(job.id, {**job.progress, **news, "links": links})
        if done:
            text = f"the former ancestors of {revocation.name} no longer hold its files"
        else:
            text = (
                f"former ancestors of {revocation.name} keep running and may still hold its files"
            )
        ledger.events.append(AuditEntry(
            kind="revoked" if done else "revocation_left", caller=DAEMON, operation="watch",
            target=revocation.agent, allowed=None, rule="", reason=text, commit=hive.commit,
            request="", now=now,
            fields={
                "target_name": revocation.name, "lost": lost[:_NAMES_MOST], "links": links,
                "restarted" if done else "left": agents[:_NAMES_MOST], "count": len(agents),
                "job": revocation.job,
            },
        ))  # fmt: skip
        return {"events"}

    def _requeue_all(self, revocation: Revocation, agents: Iterable[str]) -> None:
        """Reload the rows of all agents that the revocation concerns, and requeue them."""
        everybody = {*agents, revocation.agent}
        self.runner.observed.cache.refresh(everybody)
        for uuid in everybody:
            self.runner.requeue(uuid)


@dataclass
class StorageApplier:
    runner: ActionRunner
    revoker: Revoker

    async def apply_early(self, plan: ReconcilePlan) -> None:
        """Apply the steps that need no fresh observation. The next pass repeats those that fail."""
        self._announce(plan.tree)
        for step in plan.steps:
            with suppress(HiveError):
                await self.runner.run_step(step)
                if step in plan.tree:
                    self._requeue_subtree(step)

    async def apply(self, tree: tuple[ReconcileStep, ...]) -> set[str]:
        """Apply the storage steps one after another; return the agents whose step failed."""
        self._announce(tree)
        failed = set()
        for step in tree:
            try:
                await self.runner.run_step(step)
            except HiveError as error:
                self.runner.record_failure(step.uuid, step.name, error)
                failed.add(step.uuid)
            else:
                self._requeue_subtree(step)
        return failed

    def _announce(self, steps: tuple[ReconcileStep, ...]) -> None:
        """Record revocations before any node moves."""
        self.revoker.announce(step.action for step in steps if isinstance(step.action, MoveNode))

    def _requeue_subtree(self, step: ReconcileStep) -> None:
        """Requeue all agents whose facts this step changed."""
        for name in self.runner.observed.places.hive.topology.subtree(step.name):
            self.runner.requeue(self.runner.observed.places.by_name(name).uuid)
        if isinstance(step.action, MoveNode):
            for uuid in self.runner.observed.cache.archives:
                self.runner.requeue(uuid)
