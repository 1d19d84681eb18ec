"""The deployer: advances every open approval, step by step.

It is woken by topics of the request path (`approval:`) and of the change path (`state:`,
`config:`), by timers, and at the start for every open approval. Its state in memory may be lost at
any time: the ledger records the progress of each approval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from hive_core.errors import HiveError
from hive_core.model.config.approval import Approval, ApprovalKind, ApprovalState
from hive_core.reconcile.deploy.approval_steps import OVERTAKEN, ApprovalSteps
from hive_core.reconcile.deploy.background_tasks import UNEXPECTED, BackgroundTasks, internal_error
from hive_core.reconcile.deploy.context import DeployContext
from hive_core.reconcile.deploy.initial_builds import InitialBuilds
from hive_core.reconcile.deploy.retention import Retention
from hive_core.reconcile.deploy.rollouts import Rollouts
from hive_core.reconcile.deploy.seeding import KEY as SEEDING
from hive_core.reconcile.deploy.seeding import SeedJobs
from hive_core.reconcile.deploy.trial import TrialWatcher
from hive_core.reconcile.deploy.trial_state import TrialReader

log = logging.getLogger(__name__)
AT_ONCE: Final = 4  # approvals that are checked or built at a time
RECENT: Final = 200  # ended approvals whose tags a new daemon checks
_OF_AGENTS: Final = frozenset({"state", "config", "hello", "run"})
_TREE: Final = frozenset({"tree", "gc", "gone"})
_ROLLOUT: Final = "rollout:"
_S = ApprovalState
_UNDER_WAY: Final = frozenset({_S.BUILDING, _S.DEPLOYING, _S.WATCHING})


@dataclass
class Deployer:
    """Advances approvals. Call `on_topics` with all topics; `run` does the rest."""

    context: DeployContext
    tasks: BackgroundTasks
    steps: ApprovalSteps
    watcher: TrialWatcher
    retention: Retention
    rollouts: Rollouts
    initial_builds: InitialBuilds
    seed_jobs: SeedJobs
    _dirty: dict[str, None] = field(default_factory=dict)
    _of_agent: dict[str, set[str]] = field(default_factory=dict)
    _waiting: dict[str, None] = field(default_factory=dict)
    _tree: bool = True
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def build(cls, means: DeployContext, fatal: Callable[[BaseException], None]) -> Self:
        scenes = TrialReader(means)
        tasks = BackgroundTasks(means.ports.clock, lambda _: None, fatal, means.observed.troubles)
        walk = ApprovalSteps(means, scenes, tasks.failure_count)
        watching = TrialWatcher(means, scenes, tasks)
        deployer = cls(means, tasks, walk, watching, Retention(means), Rollouts(means),
            InitialBuilds(means), SeedJobs(means, tasks),
        )  # fmt: skip
        tasks.requeue = deployer.requeue
        deployer._resume()
        return deployer

    # Waking

    def _resume(self) -> None:
        ledger = self.context.ports.ledger
        for approval in (*ledger.approvals.open(), *ledger.approvals.page(None, RECENT)):
            self._index(approval)
        for deploy in ledger.deploys.all():
            self.requeue(deploy.approval)
        self._requeue_rollouts()
        self._requeue_seeds()

    def _index(self, approval: Approval) -> None:
        self._of_agent.setdefault(approval.agent, set()).add(approval.id)
        self.requeue(approval.id)

    def on_topics(self, topics: frozenset[str]) -> None:
        """Requeue the approvals that a record, or a change on the host, affects."""
        for topic in topics:
            kind, _, rest = topic.partition(":")
            if kind == "approval":
                self.requeue(rest)
            elif kind in _OF_AGENTS:
                for approval in self._of_agent.get(rest, ()):
                    self.requeue(approval)
                self._requeue_initial_build(rest)
            elif kind == "rollout":
                self.requeue(topic)
            elif kind == "seed":
                self._requeue_seeds()
            elif kind in _TREE:
                self._tree = True
                self._awake.set()

    def requeue(self, approval: str) -> None:
        """Process this key next: an approval, a rollout or a seed job."""
        self._dirty[approval] = None
        self._awake.set()

    def _requeue_initial_build(self, uuid: str) -> None:
        if self.initial_builds.is_waiting(uuid):
            self._tree = True
            self._awake.set()

    @property
    def idle(self) -> bool:
        return not (self._dirty or self._tree or self.tasks.busy)

    async def run(self) -> None:
        """Process the queue until cancelled."""
        while True:
            await self._awake.wait()
            await self.run_once()

    async def run_once(self) -> None:
        """Process everything that may have changed, once."""
        self._awake.clear()
        if self._tree:
            self._tree = False
            await self._follow_tree()
        dirty, self._dirty = {**self._dirty, **self._waiting}, {}
        self._waiting.clear()  # a slot may be free now; approvals without one wait again
        for key in dirty:
            try:
                self._process(key)
            except HiveError as error:
                self.tasks.record_failure(key, error)
            except UNEXPECTED as error:
                self.tasks.record_failure(key, internal_error(error))
            await asyncio.sleep(0)

    async def _follow_tree(self) -> None:
        """Make the applied repositories match the tree; failures are retried."""
        try:
            await self.retention.follow()
            self.initial_builds.request_missing()
        except (HiveError, *UNEXPECTED) as error:
            log.warning("Cannot follow the tree: %s", error)
            clock = self.context.ports.clock
            clock.call_at(clock.monotonic() + 1.0, lambda: self.on_topics(_TREE))

    # One approval

    def _requeue_rollouts(self) -> None:
        """Requeue all rollouts: an approval has ended, so the next wave may begin."""
        for rollout in self.rollouts.open:
            self.requeue(f"{_ROLLOUT}{rollout}")

    def _requeue_seeds(self) -> None:
        for key in self.seed_jobs.keys:
            self.requeue(key)

    def _process(self, key: str) -> None:
        if key.startswith(_ROLLOUT):
            self.rollouts.advance(key.removeprefix(_ROLLOUT))
            return
        if key.startswith(SEEDING):
            self.seed_jobs.start_when_free(key)
            return
        ledger = self.context.ports.ledger
        approval = ledger.approvals.get(key)
        if approval is None:
            return
        self._of_agent.setdefault(approval.agent, set()).add(approval.id)
        if not approval.open:
            self._close(approval)
        elif key not in self.tasks.busy:
            self._advance(approval)

    def _advance(self, approval: Approval) -> None:
        match approval.state:
            case _S.RECEIVED:
                if self._has_slot(approval):
                    self.tasks.start(approval.id, self.steps.take_in(approval))
            case _S.PENDING:
                self._expire(approval)
            case _S.APPROVED:
                if self._has_slot(approval) and not self._is_blocked(approval):
                    self.tasks.start(approval.id, self.steps.begin(approval))
            case _S.BUILDING:
                self.tasks.start(approval.id, self.steps.build(approval))
            case _:
                self._watch(approval)

    def _watch(self, approval: Approval) -> None:
        deploy = self.context.ports.ledger.deploys.get(approval.id)
        if deploy is None:
            self.steps.finish(approval, "fail", "the record of its deploy is lost")
        else:
            self.watcher.judge(approval, deploy)

    def _expire(self, approval: Approval) -> None:
        clock = self.context.ports.clock
        left = approval.expires - clock.now()
        if left <= 0:
            self.steps.finish(approval, "expire", "no decision before the deadline")
        elif self._is_overtaken(approval):
            self.steps.finish(approval, "void", OVERTAKEN)
        else:
            self.tasks.requeue_at(approval.id, clock.monotonic() + left)

    def _is_overtaken(self, approval: Approval) -> bool:
        """Whether another configuration was deployed, and is not about to be rolled back."""
        name = self.context.hive().name(approval.agent)
        if name is None or approval.kind is not ApprovalKind.CONFIG or self._is_blocked(approval):
            return False
        return (self.context.hive().spec(name).config or "") != approval.binding.base

    def _close(self, approval: Approval) -> None:
        deploy = self.context.ports.ledger.deploys.get(approval.id)
        if deploy is not None and approval.id in self.tasks.busy:
            return  # its rollback is running
        self.tasks.cancel(approval.id)
        self.steps.settle(approval)
        if deploy is None:
            self._of_agent.get(approval.agent, set()).discard(approval.id)
            self.tasks.cancel_timer(approval.id)
            self.retention.tidy(approval.agent)
            self._requeue_agent(approval.agent)
            self._requeue_rollouts()
            self._requeue_initial_build(approval.agent)
        elif approval.state is _S.FAILED:
            self.watcher.judge(approval, deploy)
        else:
            self.watcher.drop(approval)

    # Slots

    def _others(self, approval: Approval) -> Iterator[Approval]:
        ledger = self.context.ports.ledger
        for other in ledger.approvals.find_all(self._of_agent.get(approval.agent, ())):
            if other.id != approval.id:
                yield other

    def _is_blocked(self, approval: Approval) -> bool:
        """Whether another deploy or rollback of the same agent is running."""
        deploys = self.context.ports.ledger.deploys
        return any(
            other.state in _UNDER_WAY or deploys.get(other.id) is not None
            or (other.state is _S.APPROVED and other.id in self.tasks.busy)
            for other in self._others(approval)
        )  # fmt: skip

    def _has_slot(self, approval: Approval) -> bool:
        """Whether a slot is free.

        Checks have their own, so a hostile proposal delays no approved one.
        """
        busy = self.context.ports.ledger.approvals.find_all(list(self.tasks.busy))
        checks = approval.state is _S.RECEIVED
        if sum((other.state is _S.RECEIVED) is checks for other in busy) < AT_ONCE:
            return True
        self._waiting[approval.id] = None
        return False

    def _requeue_agent(self, agent: str) -> None:
        """Requeue the other approvals of this agent."""
        for approval in self._of_agent.get(agent, ()):
            self.requeue(approval)
