"""What was deployed is watched: confirmed after the window, or taken back, and that is watched too.

The evidence is durable (the exit that was counted, the hello, the wish), so a daemon that was away
comes to the same verdict. Only which invocation is watched is kept in memory: the first one seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hive_core.broker.call import Call, Record
from hive_core.errors import StorageFull
from hive_core.ledger.approvals.deploys import Deploy
from hive_core.model.config.approval import Approval, ApprovalState, Effect
from hive_core.reconcile.deploy import transactions
from hive_core.reconcile.deploy.background_tasks import Tasks
from hive_core.reconcile.deploy.context import Means
from hive_core.reconcile.deploy.health import Say, Scene, Verdict, is_up, placed, watched
from hive_core.reconcile.deploy.transactions import Done, Failure
from hive_core.reconcile.deploy.trial_state import Scenes

_S = ApprovalState


@dataclass
class Watching:
    means: Means
    scenes: Scenes
    tasks: Tasks
    _invocations: dict[str, str] = field(default_factory=dict)

    def look(self, approval: Approval, found: Deploy) -> None:
        """Judge one deploy by what there is to see now."""
        scene = self.scenes.scene(approval.agent)
        trial = self.scenes.trial(approval, found, self._invocations.get(approval.id, ""))
        if approval.state is _S.FAILED:
            self._going_back(approval, found, scene, placed(trial, scene))
            return
        judge = placed if approval.state is _S.DEPLOYING else watched
        verdict = judge(trial, scene)
        match verdict.say:
            case Say.WAIT:
                self._wait(approval.id, verdict)
            case Say.BAD:
                self.tasks.begin(approval.id, self._take_back(approval, verdict.why))
            case Say.ANEW:
                self._watch(approval, scene.machine.invocation)
            case Say.GOOD if approval.state is _S.DEPLOYING and scene.wanted:
                self._watch(approval, scene.machine.invocation)
            case Say.GOOD:
                self._confirm(approval)
        if approval.state is _S.WATCHING and is_up(scene):
            self._invocations.setdefault(approval.id, scene.machine.invocation)

    def _wait(self, approval: str, verdict: Verdict) -> None:
        if verdict.until is not None:
            clock = self.means.ports.clock
            left = verdict.until - clock.now()
            self.tasks.later(approval, clock.monotonic() + max(0.0, left))

    def _watch(self, approval: Approval, invocation: str) -> None:
        window = self.means.ports.settings.deploy.window
        until = self.means.ports.clock.now() + window
        self.means.perform("watch_deploy", lambda call: transactions.watch(call, approval, until))
        self._invocations[approval.id] = invocation
        self.means.step("watching")
        self.tasks.again(approval.id)

    def _confirm(self, approval: Approval) -> None:
        self.means.perform("confirm_deploy", lambda call: transactions.confirm(call, approval))
        self._invocations.pop(approval.id, None)
        self.means.step("confirmed")

    async def _take_back(self, approval: Approval, why: str) -> None:
        """The last lines first: the next start of the agent adds its own."""
        lines = await self.scenes.last_lines(approval.agent)
        scene = self.scenes.scene(approval.agent)
        patience = self.scenes.patience(Effect.RESTART)
        failure = Failure(why, lines, patience, is_up(scene))
        self.means.step("taking back")
        try:
            self.means.perform(
                "take_back", lambda call: transactions.take_back(call, approval, failure)
            )
        except StorageFull:
            if not self.means.spare():  # what is broken goes on running for want of a few bytes
                raise
            self.means.perform(
                "take_back", lambda call: transactions.take_back(call, approval, failure)
            )
        self._invocations.pop(approval.id, None)
        self.means.step("taken back")

    def _going_back(
        self, approval: Approval, found: Deploy, scene: Scene, verdict: Verdict
    ) -> None:
        if verdict.say is Say.WAIT:
            self._wait(approval.id, verdict)
            return
        tries = int(str(found.before.get("tries", 0))) + 1
        if verdict.say is Say.BAD and tries < transactions.TRIES and scene.wanted and scene.spec:
            patience = self.scenes.patience(Effect.RESTART)
            self.means.perform(
                "start_again",
                lambda call: transactions.try_again(call, found, approval.agent, patience),
            )
            self.means.step("started again")
            return
        self.drop(approval)

    def drop(self, approval: Approval) -> None:
        """Nothing is left to do about it on the host."""

        def handler(call: Call) -> Record[Done]:
            call.ledger.deploys.drop(approval.id)
            return Record(Done(text="over"), frozenset({f"approval:{approval.id}"}))

        self.means.perform("end_deploy", handler)
        self.means.step("over")
