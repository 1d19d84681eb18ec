"""The steps on the tree, in order, each with the promise that nobody keeps what it lost."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from hive_core.errors import HiveError
from hive_core.plan import actions as a
from hive_core.plan.desired import PlanStep, ReconcilePlan
from hive_core.reconcile.revocation import Revoker
from hive_core.reconcile.runner import ActionRunner


@dataclass
class StorageApplier:
    runner: ActionRunner
    revoker: Revoker

    async def apply_early(self, found: ReconcilePlan) -> None:
        """Steps that need no fresh look. What cannot be done comes again with one, and is told."""
        self._announce(found.tree)
        for step in found.steps:
            with suppress(HiveError):
                await self.runner.run_step(step)
                if step in found.tree:
                    self._requeue_subtree(step)

    async def apply(self, tree: tuple[PlanStep, ...]) -> set[str]:
        """Steps on the tree go one after another; what could not be done comes again."""
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

    def _announce(self, steps: tuple[PlanStep, ...]) -> None:
        """Before anything moves: who loses sight of it."""
        self.revoker.announce(each.action for each in steps if isinstance(each.action, a.MoveNode))

    def _requeue_subtree(self, step: PlanStep) -> None:
        """Everybody whose facts this step changed is looked at again."""
        for name in self.runner.observed.places.hive.topology.subtree(step.name):
            self.runner.requeue(self.runner.observed.places.by_name(name).uuid)
        if isinstance(step.action, a.MoveNode):
            for uuid in self.runner.observed.cache.archives:
                self.runner.requeue(uuid)
