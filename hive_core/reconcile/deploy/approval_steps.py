"""The steps of one approval: the work in each of its states, and its end.

Each step may run twice: a restarted daemon reads the state and continues. The first event that ends
an approval (the operator, a deadline, a destroy) decides; later attempts find it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.errors import Busy, Conflict, HiveError, StorageFull, TimedOut, Unreachable
from hive_core.host.git.applied_repositories import ProposalTag
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.approval import (
    Approval,
    ApprovalKind,
    ApprovalState,
    Effect,
    Generation,
)
from hive_core.model.config.settings import NIX_IMAGE
from hive_core.operations.approvals.outcome import WAITS_EVENT, ask_operator, end_approval
from hive_core.operations.approvals.views import list_followers, strongest_effect
from hive_core.reconcile.deploy import transactions
from hive_core.reconcile.deploy.context import (
    BuiltSystem,
    CheckedRequest,
    DeployContext,
    InputUpdates,
    RequestIntake,
)
from hive_core.reconcile.deploy.effects import HELD, effect_between, next_spec, revoked_capabilities
from hive_core.reconcile.deploy.health import is_up
from hive_core.reconcile.deploy.parking import lacks_system, park
from hive_core.reconcile.deploy.transactions import DeployResult, Voided
from hive_core.reconcile.deploy.trial_state import TrialReader

ENDED_MEANWHILE: Final = "the approval has ended meanwhile"
UNSETTLED: Final = (StorageFull, Busy, Unreachable)  # not a fault of the request
OVERTAKEN: Final = "another configuration was deployed since"
TRIES: Final = 3  # after time-outs
_S = ApprovalState
_TAGS: Final = {
    _S.DEPLOYED: "deployed", _S.FAILED: "failed", _S.DENIED: "denied", _S.EXPIRED: "denied",
    _S.VOID: "denied",
}  # fmt: skip


@dataclass
class ApprovalSteps:
    """Runs the steps. `_built` caches built systems; a restarted daemon builds them again."""

    context: DeployContext
    trials: TrialReader
    failures: Callable[[str], int]
    _built: dict[str, BuiltSystem] = field(default_factory=dict)

    # Received: check the request

    async def take_in(self, approval: Approval) -> None:
        """Check a request: afterwards it waits for the operator, or is refused."""
        means = self.context
        means.step("received")
        try:
            checked = await self._intake(approval).take_in(approval, means.hive())
            means.step("taken in")
            if checked.parts is not None:
                repo = means.applied.repo(approval.agent)
                await asyncio.to_thread(repo.promote, approval.id, checked.binding, checked.parts)
            means.step("promoted")
        except HiveError as error:
            if self._is_retried(approval, error):
                raise
            self.finish(approval, "refuse", error.reason)
            return
        self.context.perform("check_request", lambda call: self._pending(call, approval, checked))
        means.step("pending")

    def _intake(self, approval: Approval) -> RequestIntake | InputUpdates:
        if approval.kind is not ApprovalKind.INPUTS:
            return self.context.intake
        if self.context.inputs is None:
            raise Conflict("cannot update inputs: hive.toml does not offer the image `nix`")
        return self.context.inputs

    def _is_retried(self, approval: Approval, error: HiveError) -> bool:
        late = isinstance(error, TimedOut) and self.failures(approval.id) + 1 < TRIES
        return late or isinstance(error, UNSETTLED)

    def _pending(
        self, call: Call, approval: Approval, checked: CheckedRequest
    ) -> Record[DeployResult]:
        still = call.ledger.approvals.get(approval.id)
        if still is None or still.state is not _S.RECEIVED:
            return Record(DeployResult(text=ENDED_MEANWHILE))
        name = call.hive.name(approval.agent)
        held = {HELD: list(call.hive.spec(name).capabilities)} if name else {}
        effect = checked.effect
        if approval.kind is ApprovalKind.INPUTS:
            effect = strongest_effect(list_followers(call))
        call.ledger.approvals.record_review(
            approval.id, checked.binding, effect, checked.request, {**checked.review, **held}
        )
        fields = ask_operator(call, approval)
        return Record(DeployResult(text="pending"), fields, kind=WAITS_EVENT)

    # Approved: check the binding, build, put in place

    async def begin(self, approval: Approval) -> None:
        """Start the build if the agent's files are still the approved ones."""
        if fault := await self._binding_fault(approval):
            self.finish(approval, "void", fault)
            return
        self._propose(approval)
        by = f"approved by {approval.decided_by}"
        self.tag(approval, "approved", f"{by}\n{approval.message}")
        self.context.step("tagged approved")
        self._move(approval, "build", _S.APPROVED)
        self.context.step("building")

    async def build(self, approval: Approval) -> None:
        """Build what needs a build, and deploy the result."""
        means = self.context
        self.tag(approval, "building", "its turn has come")
        means.step("tagged building")
        try:
            if approval.kind is ApprovalKind.INPUTS:
                self._bump(approval)
                return
            built = await self._build(approval)
            means.step("built")
            if fault := await self._binding_fault(approval):
                self.finish(approval, "void", fault)
                return
            await self._deploy(approval, built)
        except Voided as error:
            self.finish(approval, "void", error.reason)
        except HiveError as error:
            if self._is_retried(approval, error):
                raise
            self.finish(approval, "fail", error.reason, str(getattr(error, "lines", "")))
        else:
            self._built.pop(approval.id, None)

    def _bump(self, approval: Approval) -> None:
        """Commit the updated inputs. The agents that are built from them are updated in waves."""
        inputs = self.context.inputs
        if inputs is None:
            raise Conflict("cannot update inputs: hive.toml no longer offers the image `nix`")
        self.context.perform(
            "bump_inputs", lambda call: transactions.update_inputs(call, approval, inputs)
        )
        self.context.step("bumped")

    async def _build(self, approval: Approval) -> BuiltSystem:
        """Build once for each approval while this daemon runs."""
        name = self.name(approval)
        if (
            approval.kind is ApprovalKind.ROLLBACK
            or self.context.hive().spec(name).image != NIX_IMAGE
        ):
            return BuiltSystem()
        if approval.id not in self._built:
            built = await self.context.builder.build(approval, self.context.hive(), name)
            self._built[approval.id] = built
        return self._built[approval.id]

    async def _deploy(self, approval: Approval, built: BuiltSystem) -> None:
        means, name = self.context, self.name(approval)
        before = means.hive().spec(name)
        after = next_spec(before, approval, built, self._generations(approval))
        if fault := revoked_capabilities(before, after, approval):
            raise Voided(fault)
        effect = await asyncio.to_thread(effect_between, means.applied, before, after)
        if means.hive().specs.get(name) is not before:
            raise Busy("the agent was changed meanwhile")
        up = is_up(self.trials.state(approval.agent))
        if effect is Effect.SWITCH and not up:
            effect = Effect.RESTART  # no process in the container could switch
        step = transactions.DeployStep(approval, name, after, effect, up, built.report)
        means.step("deploying")
        means.perform("deploy", lambda call: transactions.put_in_place(call, step))
        means.step("deployed")

    def _generations(self, approval: Approval) -> tuple[Generation, ...]:
        if approval.kind is not ApprovalKind.ROLLBACK:
            return ()
        generations = self.context.ports.ledger.generations
        target = generations.get(approval.agent, int(str(approval.review.get("generation", 0))))
        current = generations.newest(approval.agent)
        if target is None or current is None:
            raise Conflict("cannot roll back: the generation was deleted meanwhile")
        return target, current

    # Bindings

    async def _binding_fault(self, approval: Approval) -> str:
        """Why the approval no longer fits the agent (attack 21); empty if it fits."""
        if approval.kind is ApprovalKind.INPUTS:
            return ""  # `InputUpdates.change` checks it, in the transaction itself
        name = self.context.hive().name(approval.agent)
        if name is None:
            return "the agent was destroyed"
        spec = self.context.hive().spec(name)
        if (spec.config or "") != approval.binding.base:
            return OVERTAKEN
        return self._lock_fault(spec, approval) or await self._content_fault(spec, approval)

    def _lock_fault(self, spec: AgentSpec, approval: Approval) -> str:
        bound = approval.kind is ApprovalKind.CONFIG and spec.image == NIX_IMAGE
        same = approval.binding.lock == self.context.hive().lock_hash
        return "" if same or not bound else "the inputs changed since the request"

    async def _content_fault(self, spec: AgentSpec, approval: Approval) -> str:
        if approval.kind is not ApprovalKind.CONFIG:
            return await self._files_fault(spec, approval)
        repo = self.context.applied.repo(approval.agent)
        return await asyncio.to_thread(repo.fault, approval.binding)

    async def _files_fault(self, spec: AgentSpec, approval: Approval) -> str:
        """Why the files of a rollback or of a rebuild cannot be used; empty: they are complete."""
        built = BuiltSystem(spec.system or "")
        try:
            after = next_spec(spec, approval, built, self._generations(approval))
            if after.config:
                read = self.context.applied.nar
                await asyncio.to_thread(read, spec.id, after.config, after.nar or "")
        except StorageFull:
            raise
        except HiveError as error:
            return error.reason
        return ""

    # Ending

    def finish(self, approval: Approval, event: str, reason: str, lines: str = "") -> None:
        """End the approval, unless it has ended already."""

        def handler(call: Call) -> Record[DeployResult]:
            current = call.ledger.approvals.get(approval.id)
            if current is None or not current.open or current.state is not approval.state:
                return Record(DeployResult(text=ENDED_MEANWHILE))
            end_approval(call, current, event, reason=reason, lines=lines)
            # otherwise the newer configuration is built
            if _was_first(call, current) and reason != OVERTAKEN:
                park(call, current.agent, f"cannot be built: {reason}")
            return Record(
                DeployResult(text=reason), fields={"approval": approval.id, "reason": reason}
            )

        self.context.perform(f"{event}_request", handler)
        self.context.step(f"ended by {event}")

    def settle(self, approval: Approval) -> None:
        """After the end: set the tag for the outcome, and point `main` at the agent's commit."""
        kind = _TAGS.get(approval.state)
        repo = self.context.applied.repo(approval.agent) if approval.agent else None
        if kind is None or repo is None or not repo.exists or not approval.binding.commit:
            return
        if repo.has_proposal(approval.id):
            by = f" by {approval.decided_by}" if approval.state is _S.DENIED else ""
            self.tag(approval, kind, f"{approval.state}{by}\n{approval.reason}")
            self.context.step("tagged at its end")
        name = self.context.hive().name(approval.agent)
        if name is not None and (config := self.context.hive().spec(name).config):
            repo.set_deployed(config)
        self.context.step("settled")

    def tag(self, approval: Approval, kind: str, text: str) -> None:
        if not approval.agent:
            return  # the meta repository records the outcome for inputs
        repo = self.context.applied.repo(approval.agent)
        at = self.context.ports.clock.now()
        repo.tag(ProposalTag(kind, approval.id, approval.binding.commit, text, at))

    def _propose(self, approval: Approval) -> None:
        """Record a rollback or an update as a proposal of an older commit."""
        if not approval.agent:
            return
        repo = self.context.applied.repo(approval.agent)
        if approval.kind is not ApprovalKind.CONFIG and not repo.has_proposal(approval.id):
            repo.propose(approval.id, approval.binding.commit)

    def _move(self, approval: Approval, event: str, state: ApprovalState) -> None:
        def handler(call: Call) -> Record[DeployResult]:
            current = call.ledger.approvals.get(approval.id)
            if current is not None and current.state is state:
                call.ledger.approvals.move(approval.id, event, call.now)
            call.notify(f"approval:{approval.id}")
            return Record(DeployResult(text=event))

        self.context.perform(f"{event}_request", handler)

    def name(self, approval: Approval) -> str:
        name = self.context.hive().name(approval.agent)
        if name is None:
            raise Conflict("the agent was destroyed")
        return name


def _was_first(call: Call, approval: Approval) -> bool:
    """Whether it was the first system of an agent that has none yet."""
    name = call.hive.name(approval.agent)
    return (
        approval.kind is ApprovalKind.UPDATE
        and name is not None
        and lacks_system(call.hive.spec(name))
    )
