"""Watches a deploy: confirms it after the window, or rolls it back and watches that too.

The evidence is durable (counted exits, check-ins, run requests), so a restarted daemon comes to the
same verdict. Only the watched invocation is kept in memory: the first one seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hive_core.broker.call import Call, Record
from hive_core.errors import StorageFull
from hive_core.ledger.approvals.deploys import DeployRecord
from hive_core.model.config.approval import Approval, ApprovalState, Effect
from hive_core.reconcile.deploy import transactions
from hive_core.reconcile.deploy.background_tasks import BackgroundTasks
from hive_core.reconcile.deploy.context import DeployContext
from hive_core.reconcile.deploy.health import (
    TrialOutcome,
    TrialState,
    TrialVerdict,
    is_up,
    judge_health,
    judge_placement,
)
from hive_core.reconcile.deploy.transactions import DeployFailure, DeployResult
from hive_core.reconcile.deploy.trial_state import TrialReader

_S = ApprovalState


@dataclass
class TrialWatcher:
    context: DeployContext
    trials: TrialReader
    tasks: BackgroundTasks
    _invocations: dict[str, str] = field(default_factory=dict)

    def judge(self, approval: Approval, deploy: DeployRecord) -> None:
        """Judge one deploy by the current state, and act on the verdict."""
        scene = self.trials.state(approval.agent)
        trial = self.trials.trial(approval, deploy, self._invocations.get(approval.id, ""))
        if approval.state is _S.FAILED:
            self._continue_rollback(approval, deploy, scene, judge_placement(trial, scene))
            return
        judge = judge_placement if approval.state is _S.DEPLOYING else judge_health
        verdict = judge(trial, scene)
        match verdict.outcome:
            case TrialOutcome.WAIT:
                self._wait(approval.id, verdict)
            case TrialOutcome.BAD:
                self.tasks.start(approval.id, self._take_back(approval, verdict.why))
            case TrialOutcome.ANEW:
                self._watch(approval, scene.machine.invocation)
            case TrialOutcome.GOOD if approval.state is _S.DEPLOYING and scene.wanted:
                self._watch(approval, scene.machine.invocation)
            case TrialOutcome.GOOD:
                self._confirm(approval)
        if approval.state is _S.WATCHING and is_up(scene):
            self._invocations.setdefault(approval.id, scene.machine.invocation)

    def _wait(self, approval: str, verdict: TrialVerdict) -> None:
        if verdict.until is not None:
            clock = self.context.ports.clock
            left = verdict.until - clock.now()
            self.tasks.requeue_at(approval, clock.monotonic() + max(0.0, left))

    def _watch(self, approval: Approval, invocation: str) -> None:
        window = self.context.ports.settings.deploy.window
        until = self.context.ports.clock.now() + window
        self.context.perform("watch_deploy", lambda call: transactions.watch(call, approval, until))
        self._invocations[approval.id] = invocation
        self.context.step("watching")
        self.tasks.requeue(approval.id)

    def _confirm(self, approval: Approval) -> None:
        self.context.perform("confirm_deploy", lambda call: transactions.confirm(call, approval))
        self._invocations.pop(approval.id, None)
        self.context.step("confirmed")

    async def _take_back(self, approval: Approval, why: str) -> None:
        """Roll back. The last lines are read first, because the next start adds lines."""
        lines = await self.trials.last_lines(approval.agent)
        scene = self.trials.state(approval.agent)
        patience = self.trials.patience(Effect.RESTART)
        failure = DeployFailure(why, lines, patience, is_up(scene))
        self.context.step("taking back")
        try:
            self.context.perform(
                "take_back", lambda call: transactions.take_back(call, approval, failure)
            )
        except StorageFull:
            if (
                not self.context.release_ballast()
            ):  # otherwise the faulty configuration stays in force
                raise
            self.context.perform(
                "take_back", lambda call: transactions.take_back(call, approval, failure)
            )
        self._invocations.pop(approval.id, None)
        self.context.step("taken back")

    def _continue_rollback(
        self, approval: Approval, deploy: DeployRecord, scene: TrialState, verdict: TrialVerdict
    ) -> None:
        if verdict.outcome is TrialOutcome.WAIT:
            self._wait(approval.id, verdict)
            return
        tries = int(str(deploy.before.get("tries", 0))) + 1
        if (
            verdict.outcome is TrialOutcome.BAD
            and tries < transactions.TRIES
            and scene.wanted
            and scene.spec
        ):
            patience = self.trials.patience(Effect.RESTART)
            self.context.perform(
                "start_again",
                lambda call: transactions.try_again(call, deploy, approval.agent, patience),
            )
            self.context.step("started again")
            return
        self.drop(approval)

    def drop(self, approval: Approval) -> None:
        """Drop the record of a deploy that needs nothing more on the host."""

        def handler(call: Call) -> Record[DeployResult]:
            call.ledger.deploys.drop(approval.id)
            call.notify(f"approval:{approval.id}")
            return Record(DeployResult(text="over"))

        self.context.perform("end_deploy", handler)
        self.context.step("over")
