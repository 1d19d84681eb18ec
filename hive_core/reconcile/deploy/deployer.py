"""The deploy road: every approval that is open is brought a step further, again and again.

Woken by topics of the request road (`approval:`) and of the change road (`state:`, `config:`), by
timers, and at the start by everything that has not come to rest. What it remembers between two
steps could be thrown away at any time: the ledger says how far each approval is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Self

from hive_core.errors import HiveError
from hive_core.model.config.approval import Approval, ApprovalState, Kind
from hive_core.reconcile.deploy.approval_steps import Walk
from hive_core.reconcile.deploy.background_tasks import ODD, Tasks, odd
from hive_core.reconcile.deploy.context import Means
from hive_core.reconcile.deploy.initial_builds import FirstBuilds
from hive_core.reconcile.deploy.retention import Keeping
from hive_core.reconcile.deploy.rollouts import Rollouts
from hive_core.reconcile.deploy.seeding import KEY as SEEDING
from hive_core.reconcile.deploy.seeding import Seeding
from hive_core.reconcile.deploy.trial import Watching
from hive_core.reconcile.deploy.trial_state import Scenes

log = logging.getLogger(__name__)
AT_ONCE: Final = 4  # approvals that are checked or built at a time
RECENT: Final = 200  # ended ones that a fresh daemon looks at again, for tags it owes them
_OF_AGENTS: Final = frozenset({"state", "config", "hello", "run"})
_TREE: Final = frozenset({"tree", "gc", "gone"})
_ROLLOUT: Final = "rollout:"
_S = ApprovalState
_UNDER_WAY: Final = frozenset({_S.BUILDING, _S.DEPLOYING, _S.WATCHING})


@dataclass
class Deploys:
    """Call `heard` with every topic; `run` does the rest."""

    means: Means
    tasks: Tasks
    walk: Walk
    watching: Watching
    keeping: Keeping
    rollouts: Rollouts
    firsts: FirstBuilds
    seeding: Seeding
    _dirty: dict[str, None] = field(default_factory=dict)
    _of_agent: dict[str, set[str]] = field(default_factory=dict)
    _waiting: dict[str, None] = field(default_factory=dict)
    _tree: bool = True
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    def build(cls, means: Means, fatal: Callable[[BaseException], None]) -> Self:
        scenes = Scenes(means)
        tasks = Tasks(means.ports.clock, lambda _: None, fatal, means.look.troubles)
        walk = Walk(means, scenes, tasks.failures)
        watching = Watching(means, scenes, tasks)
        found = cls(means, tasks, walk, watching, Keeping(means), Rollouts(means),
            FirstBuilds(means), Seeding(means, tasks),
        )  # fmt: skip
        tasks.again = found.again
        found._resume()
        return found

    # Waking.

    def _resume(self) -> None:
        ledger = self.means.ports.ledger
        for each in (*ledger.approvals.open(), *ledger.approvals.page(None, RECENT)):
            self._note(each)
        for deploy in ledger.deploys.all():
            self.again(deploy.approval)
        self._again_rollouts()
        self._again_seeds()

    def _note(self, approval: Approval) -> None:
        self._of_agent.setdefault(approval.agent, set()).add(approval.id)
        self.again(approval.id)

    def heard(self, topics: frozenset[str]) -> None:
        """Something was written down, or has changed on the host."""
        for topic in topics:
            kind, _, rest = topic.partition(":")
            if kind == "approval":
                self.again(rest)
            elif kind in _OF_AGENTS:
                for each in self._of_agent.get(rest, ()):
                    self.again(each)
                self._look_at_first(rest)
            elif kind == "rollout":
                self.again(topic)
            elif kind == "seed":
                self._again_seeds()
            elif kind in _TREE:
                self._tree = True
                self._awake.set()

    def again(self, approval: str) -> None:
        """Look at this one, an approval or a rollout."""
        self._dirty[approval] = None
        self._awake.set()

    def _look_at_first(self, uuid: str) -> None:
        if self.firsts.awaits(uuid):
            self._tree = True
            self._awake.set()

    @property
    def idle(self) -> bool:
        return not (self._dirty or self._tree or self.tasks.busy)

    async def run(self) -> None:
        """Turn after turn, until cancelled."""
        while True:
            await self._awake.wait()
            await self.turn()

    async def turn(self) -> None:
        """One look at everything that may have changed."""
        self._awake.clear()
        if self._tree:
            self._tree = False
            await self._follow()
        dirty, self._dirty = {**self._dirty, **self._waiting}, {}
        self._waiting.clear()  # something has ended, or come; who still finds no room waits again
        for key in dirty:
            try:
                self._look(key)
            except HiveError as error:
                self.tasks.failed(key, error)
            except ODD as error:
                self.tasks.failed(key, odd(error))
            await asyncio.sleep(0)

    async def _follow(self) -> None:
        """Repositories as the tree has them; what fails is tried again."""
        try:
            await self.keeping.follow()
            self.firsts.look()
        except (HiveError, *ODD) as error:
            log.warning("Cannot follow the tree: %s", error)
            clock = self.means.ports.clock
            clock.call_at(clock.monotonic() + 1.0, lambda: self.heard(_TREE))

    # One approval.

    def _again_rollouts(self) -> None:
        """Somebody has come out: perhaps the next wave's turn."""
        for each in self.rollouts.open:
            self.again(f"{_ROLLOUT}{each}")

    def _again_seeds(self) -> None:
        for each in self.seeding.keys:
            self.again(each)

    def _look(self, key: str) -> None:
        if key.startswith(_ROLLOUT):
            self.rollouts.look(key.removeprefix(_ROLLOUT))
            return
        if key.startswith(SEEDING):
            self.seeding.look(key)
            return
        ledger = self.means.ports.ledger
        approval = ledger.approvals.get(key)
        if approval is None:
            return
        self._of_agent.setdefault(approval.agent, set()).add(approval.id)
        if not approval.open:
            self._ended(approval)
        elif key not in self.tasks.busy:
            self._open(approval)

    def _open(self, approval: Approval) -> None:
        match approval.state:
            case _S.RECEIVED:
                if self._has_room(approval):
                    self.tasks.begin(approval.id, self.walk.take_in(approval))
            case _S.PENDING:
                self._expire(approval)
            case _S.APPROVED:
                if self._has_room(approval) and not self._is_held_up(approval):
                    self.tasks.begin(approval.id, self.walk.begin(approval))
            case _S.BUILDING:
                self.tasks.begin(approval.id, self.walk.build(approval))
            case _:
                self._watched(approval)

    def _watched(self, approval: Approval) -> None:
        found = self.means.ports.ledger.deploys.get(approval.id)
        if found is None:
            self.walk.finish(approval, "fail", "what it was doing is not known any more")
        else:
            self.watching.look(approval, found)

    def _expire(self, approval: Approval) -> None:
        clock = self.means.ports.clock
        left = approval.expires - clock.now()
        if left <= 0:
            self.walk.finish(approval, "expire", "nobody decided in time")
        elif self._is_overtaken(approval):
            self.walk.finish(approval, "void", "another configuration came in between")
        else:
            self.tasks.later(approval.id, clock.monotonic() + left)

    def _is_overtaken(self, approval: Approval) -> bool:
        """Unless that may still be taken back."""
        name = self.means.hive().name(approval.agent)
        if name is None or approval.kind is not Kind.CONFIG or self._is_held_up(approval):
            return False
        return (self.means.hive().spec(name).config or "") != approval.binding.base

    def _ended(self, approval: Approval) -> None:
        found = self.means.ports.ledger.deploys.get(approval.id)
        if found is not None and approval.id in self.tasks.busy:
            return  # it is just being taken back
        self.tasks.cancel(approval.id)
        self.walk.settle(approval)
        if found is None:
            self._of_agent.get(approval.agent, set()).discard(approval.id)
            self.tasks.forget(approval.id)
            self.keeping.tidy(approval.agent)
            self._next(approval.agent)
            self._again_rollouts()
            self._look_at_first(approval.agent)
        elif approval.state is _S.FAILED:
            self.watching.look(approval, found)
        else:
            self.watching.drop(approval)

    # Turns.

    def _others(self, approval: Approval) -> Iterator[Approval]:
        ledger = self.means.ports.ledger
        for each in ledger.approvals.known(self._of_agent.get(approval.agent, ())):
            if each.id != approval.id:
                yield each

    def _is_held_up(self, approval: Approval) -> bool:
        """One at a time for each agent; also one that goes back is under way."""
        deploys = self.means.ports.ledger.deploys
        return any(
            each.state in _UNDER_WAY or deploys.get(each.id) is not None
            or (each.state is _S.APPROVED and each.id in self.tasks.busy)
            for each in self._others(approval)
        )  # fmt: skip

    def _has_room(self, approval: Approval) -> bool:
        """Checks are counted by themselves: who is approved waits for no hostile proposal."""
        busy = self.means.ports.ledger.approvals.known(list(self.tasks.busy))
        checks = approval.state is _S.RECEIVED
        if sum((each.state is _S.RECEIVED) is checks for each in busy) < AT_ONCE:
            return True
        self._waiting[approval.id] = None
        return False

    def _next(self, agent: str) -> None:
        """Who waited for this one."""
        for each in self._of_agent.get(agent, ()):
            self.again(each)
