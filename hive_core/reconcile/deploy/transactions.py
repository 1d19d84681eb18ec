"""The transactions of a deploy: put in place, watch, confirm, take back. Each is one COMMIT.

From the first one on, `deploys` records what a deploy does and has done. Spec, start and record
change together, so a crash leaves either the old or the new state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Result
from hive_core.errors import Conflict
from hive_core.ledger.approvals.deploys import DeployRecord
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredState
from hive_core.model.config.approval import (
    Approval,
    ApprovalKind,
    ApprovalState,
    Effect,
    Generation,
)
from hive_core.operations.approvals.outcome import (
    approval_topic,
    display_name,
    end_approval,
    void_overtaken,
)
from hive_core.operations.approvals.views import list_followers, strongest_effect
from hive_core.plan.effect import fields, undo
from hive_core.plan.rollout_waves import waves
from hive_core.reconcile.deploy.context import InputUpdates
from hive_core.reconcile.deploy.parking import lacks_system, park
from hive_core.reconcile.jobs.goals import ENDED

TRIES: Final = 3  # starts of an agent after its rollback
_S = ApprovalState


class Voided(Conflict):
    """The approval no longer fits the agent."""


class DeployResult(Result):
    """The result of a transaction, for the log."""

    text: str


@dataclass(frozen=True, slots=True)
class DeployStep:
    """The prepared deploy: the next spec, its effect, whether the agent runs now."""

    approval: Approval
    name: str
    after: AgentSpec
    effect: Effect
    is_up: bool
    build_report: Mapping[str, object]  # by the build


def put_in_place(call: Call, step: DeployStep) -> Change[DeployResult]:
    """Commit the next spec with its generation and start. From then on it is in force."""
    approval, ledger = step.approval, call.ledger
    spec, uuid = call.hive.spec(step.name), step.after.id
    _require_state(call, approval.id, _S.BUILDING)
    if spec.config != (approval.binding.base or None):
        raise Voided("another configuration was deployed since")
    run = ledger.runs.get(uuid)
    nonce = None
    if run is not None and run.wanted is DesiredState.RUNNING and _starts(step):
        reason = f"approval {approval.id} is deployed"
        wish = ledger.runs.want(
            uuid, DesiredState.RUNNING, call.now, grace=run.grace, reason=reason, fresh=True
        )
        nonce = wish.nonce
    _first_generation(call, spec, approval.created)
    number = ledger.generations.next(uuid)
    after = step.after
    ledger.generations.put(Generation(
        uuid, number, after.config or "", approval.id, call.now, after.system or "", fields(after)
    ))  # fmt: skip
    before = {"fields": fields(spec), "after": fields(after), "effect": step.effect, "tries": 0}
    ledger.deploys.put(DeployRecord(approval.id, number, call.hive.commit, before, nonce))
    built = {"built": dict(step.build_report)} if step.build_report else {}
    review = {**approval.review, **built}
    ledger.approvals.record_review(
        approval.id, approval.binding, step.effect, approval.requested, review
    )
    ledger.approvals.move(approval.id, "deploy", call.now)
    summary = f"{_verb(approval)} {step.name} {(after.config or '-')[:12]} (generation {number})"
    call.notify(approval_topic(approval.id), f"run:{uuid}")
    return Change(
        DeployResult(text=summary),
        call.hive.with_spec(step.name, after),
        summary,
        {"approval": approval.id, "generation": number, "effect": step.effect},
        _trailers(call, approval, step.effect),
    )


def update_inputs(call: Call, approval: Approval, inputs: InputUpdates) -> Change[DeployResult]:
    """Commit another `flake.lock`, and plan the waves of the agents that are built from it."""
    _require_state(call, approval.id, _S.BUILDING)
    hive = inputs.change(approval, call.hive)
    follows = list_followers(call)
    effect = strongest_effect(follows)
    ledger = call.ledger.approvals
    ledger.record_review(approval.id, approval.binding, effect, approval.requested, approval.review)
    ledger.move(approval.id, "deploy", call.now)
    end_approval(call, call.ledger.approvals.move(approval.id, "watch", call.now), "confirm")
    bounds, touched = call.settings.deploy, inputs.built_agents(call.hive)
    for number, wave in enumerate(waves(touched, bounds.first_wave, bounds.second_wave)):
        for name in wave:
            call.ledger.rollouts.put(approval.job or approval.id, number, call.hive.spec(name).id)
    who = "1 agent follows" if len(follows) == 1 else f"{len(follows)} agents follow"
    summary = f"update inputs ({who})"
    call.notify(f"rollout:{approval.job or approval.id}")
    details, trailers = {"approval": approval.id}, _trailers(call, approval, effect)
    return Change(DeployResult(text=summary), hive, summary, fields=details, trailers=trailers)


def watch(call: Call, approval: Approval, until: float) -> Record[DeployResult]:
    """Start the health window, or start it again: the deploy is in place."""
    if approval.state is _S.DEPLOYING:
        call.ledger.approvals.move(approval.id, "watch", call.now)
    deploy = _deploy_row(call, approval.id)
    call.ledger.deploys.put(replace(deploy, until=until))
    call.notify(approval_topic(approval.id))
    return Record(DeployResult(text="watched"))


def confirm(call: Call, approval: Approval) -> Record[DeployResult]:
    """End a deploy as successful: the agent was healthy for the whole window, or was stopped."""
    ledger, current = call.ledger, approval
    if current.state is _S.DEPLOYING:
        current = ledger.approvals.move(current.id, "watch", call.now)
    end_approval(call, current, "confirm")
    void_overtaken(call, current)
    ledger.deploys.drop(current.id)
    ledger.generations.prune(current.agent, call.settings.deploy.generations)
    return Record(DeployResult(text="deployed"), fields={"approval": current.id})


@dataclass(frozen=True, slots=True)
class DeployFailure:
    """Why a deploy is rolled back, the agent's last lines, and the conditions of the rollback."""

    why: str
    lines: str
    patience: float
    is_up: bool


def take_back(
    call: Call, approval: Approval, failure: DeployFailure
) -> Change[DeployResult] | Record[DeployResult]:
    """Put the state before the deploy in force again; restart the agent if needed.

    Later changes by other calls stay. The failed generation is kept for inspection. An agent that
    had no system before is parked.
    """
    deploy, name = _deploy_row(call, approval.id), call.hive.name(approval.agent)
    call.ledger.generations.fail(approval.agent, deploy.generation, failure.why)
    end_approval(call, approval, "fail", reason=failure.why, lines=failure.lines)
    if name is None:
        call.ledger.deploys.drop(approval.id)
        return Record(DeployResult(text="the agent was destroyed"))
    spec = undo(call.hive.spec(name), deploy.part("fields"), deploy.part("after"))
    if lacks_system(spec):
        park(call, approval.agent, f"the new system is not healthy: {failure.why}")
        call.ledger.deploys.drop(approval.id)
    else:
        nonce = _start_again(call, approval, deploy, failure)
        until = call.now + failure.patience
        call.ledger.deploys.put(replace(deploy, nonce=nonce, until=until))
    current = call.ledger.generations.newest(approval.agent)
    number = current.number if current else 0
    summary = f"take back {name} {(spec.config or '-')[:12]} (generation {number} again)"
    call.notify(f"run:{approval.agent}")
    return Change(
        DeployResult(text=summary), call.hive.with_spec(name, spec), summary,
        fields={"approval": approval.id, "generation": number, "reason": failure.why},
        trailers=_trailers(call, approval, Effect(str(deploy.before["effect"]))),
    )  # fmt: skip


def try_again(call: Call, deploy: DeployRecord, uuid: str, patience: float) -> Record[DeployResult]:
    """Start an agent again that did not come up after a rollback."""
    run = call.ledger.runs.get(uuid)
    if run is None or run.wanted is not DesiredState.RUNNING:
        raise Conflict("the agent is stopped")
    wish = call.ledger.runs.want(
        uuid, DesiredState.RUNNING, call.now, grace=run.grace, reason="it goes back", fresh=True
    )
    tries = int(str(deploy.before.get("tries", 0))) + 1
    before = {**deploy.before, "tries": tries}
    until = call.now + patience
    call.ledger.deploys.put(replace(deploy, before=before, nonce=wish.nonce, until=until))
    call.notify(f"run:{uuid}")
    return Record(DeployResult(text=f"try {tries + 1}"))


def _starts(step: DeployStep) -> bool:
    """Whether the deploy starts the agent.

    That includes a stopped one, because this may be the fix.
    """
    return step.effect is Effect.RESTART or not step.is_up


def _start_again(
    call: Call, approval: Approval, deploy: DeployRecord, failure: DeployFailure
) -> int | None:
    run = call.ledger.runs.get(approval.agent)
    if run is None or (deploy.nonce is None and failure.is_up):
        return None
    ended = run.wanted is not DesiredState.RUNNING and run.reason.startswith(ENDED)
    if run.wanted is not DesiredState.RUNNING and not ended:
        return None  # a requested stop stays
    reason = f"approval {approval.id} failed"
    return call.ledger.runs.want(
        approval.agent, DesiredState.RUNNING, call.now, grace=run.grace, reason=reason, fresh=True
    ).nonce


def _first_generation(call: Call, spec: AgentSpec, requested: float) -> None:
    """Record the state before the first deploy as generation 1, so that a rollback can reach it.

    Its time is that of the agent's creation. Older versions did not record that; then it is the
    time when the deploy was `requested`.
    """
    if call.ledger.generations.next(spec.id) == 1 and spec.config:
        since = call.ledger.ranges.creation_time(spec.id) or requested
        call.ledger.generations.put(Generation(
            spec.id, 1, spec.config, "", since, spec.system or "", fields(spec)
        ))  # fmt: skip


def _require_state(call: Call, approval: str, state: ApprovalState) -> None:
    row = call.ledger.approvals.get(approval)
    if row is None or row.state is not state:
        raise Conflict("the approval was decided otherwise meanwhile")


def _deploy_row(call: Call, approval: str) -> DeployRecord:
    deploy = call.ledger.deploys.get(approval)
    if deploy is None:
        raise Conflict(f"no record of the deploy of {approval}")
    return deploy


def _verb(approval: Approval) -> str:
    return {ApprovalKind.ROLLBACK: "roll back", ApprovalKind.UPDATE: "update"}.get(
        approval.kind, "deploy"
    )


def _trailers(call: Call, approval: Approval, effect: Effect) -> dict[str, str]:
    """The trailers of a deploy's commit, in addition to those of every commit."""
    return {
        "Hive-Approval": approval.id,
        "Hive-Requested-By": _party(call, approval.requester),
        "Hive-Approved-By": _party(call, approval.decided_by),
        "Hive-Effect": effect.value,
    }


def _party(call: Call, party: str) -> str:
    name = display_name(call, party)
    return f"{name} {party}" if name != party else party
