"""Approvals as results: the requester sees all of an approval, an ancestor only that it exists.

A request for newer inputs also shows which agents are rebuilt, and the effect on each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.agent_config import ConfigRequest
from hive_core.model.config.approval import Approval, ApprovalKind, Effect
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.operations.approvals.outcome import display_name
from hive_core.plan import flake
from hive_core.plan.effect import requested_changes
from hive_core.policy.decide import visible_names
from hive_core.policy.relationship import ABOVE, ITSELF, relationship

ROWS_MOST: Final = 500  # in a page: the rest of the frame is for lines
BUILD, NEXT_START = "build", "next start"
_UP: Final = frozenset({State.RUNNING, State.DEGRADED})


class ApprovalRow(Result):
    id: str = Field(description="The approval.")
    kind: str = Field(description="config, inputs, rollback or update.")
    agent: str = Field(
        description="Name of the agent that it concerns; empty: the inputs of all agents."
    )
    agent_uuid: str = Field(description="UUID of the agent.")
    requester: str = Field(description="Name of the requester, or `operator`.")
    requester_uuid: str = Field(description="UUID of the requester.")
    source: str = Field(description="Name of the agent whose clone has the commit; empty: none.")
    state: str = Field(description="State of the approval.")
    commit: str = Field(
        description="Exactly what is requested: a commit, or for newer inputs the first digits of"
        " the SHA-256 of the lock; empty: not known yet."
    )
    base: str = Field(
        description="What it was compared with: the commit that was deployed, or for newer inputs"
        " the hash of the lock."
    )
    effect: str = Field(description="Effect on a running agent.")
    message: str = Field(description="Message of the requester; untrusted text.")
    created: float = Field(description="When it was requested, in seconds since 1970.")
    expires: float = Field(description="When it expires without a decision.")
    decided: float | None = Field(description="When it was decided; null: not yet.")
    decided_by: str = Field(description="Who decided.")
    ended: float | None = Field(description="When it ended; null: not yet.")
    reason: str = Field(description="Reason of its end.")
    job: str = Field(description="The job that ends with it.")


class MarkRow(Result):
    kind: str = Field(description="capability, mount, network, secret, limit, command, boot...")
    name: str = Field(description="Name of the item; `none` when the request removes it.")
    before: str = Field(description="Present value.")
    after: str = Field(description="Requested value; a command as its agent wrote it.")
    gives: bool = Field(description="Whether it gives the agent more than it has.")


def is_requester(call: Call, approval: Approval) -> bool:
    return call.by_operator or approval.requester == call.uuid


def can_see(call: Call, approval: Approval) -> bool:
    return is_requester(call, approval) or is_above(call, approval.agent)


def is_above(call: Call, agent: str) -> bool:
    name = call.hive.name(agent)
    return name is not None and relationship(call.hive, call.caller, name) in (ITSELF, *ABOVE)


def approval_row(call: Call, approval: Approval) -> ApprovalRow:
    whole = is_requester(call, approval)
    return ApprovalRow(
        id=approval.id,
        kind=approval.kind,
        agent=display_name(call, approval.agent) if approval.agent else "",
        agent_uuid=approval.agent,
        requester=display_name(call, approval.requester),
        requester_uuid=approval.requester,
        source=display_name(call, approval.source) if approval.source else "",
        state=approval.state,
        commit=approval.binding.commit,
        base=_base(approval),
        effect=approval.effect,
        message=approval.message if whole else "",
        created=approval.created,
        expires=approval.expires,
        decided=approval.decided,
        decided_by=approval.decided_by if call.by_operator else _decider(approval),
        ended=approval.ended,
        reason=approval.reason if whole else "",
        job=approval.job if whole else "",
    )


def visible_figures(call: Call, approval: Approval) -> dict[str, object]:
    """Figures of the check; other readers than the requester see only numbers."""
    whole = is_requester(call, approval)
    return {
        name: value for name, value in approval.review.items() if whole or isinstance(value, int)
    }


def _base(approval: Approval) -> str:
    """The base.

    For inputs the hash of the lock that was in force, with as many digits as the new hash.
    """
    return (
        approval.binding.lock[:40]
        if approval.kind is ApprovalKind.INPUTS
        else approval.binding.base
    )


def _decider(approval: Approval) -> str:
    """Agents learn that the operator decided, but not which person."""
    return THE_OPERATOR if approval.decided_by else ""


def mark_rows(call: Call, approval: Approval) -> list[MarkRow]:
    """The changes to what the agent has now.

    Hidden if the requester can no longer see the agent.
    """
    spec = _visible_spec(call, approval)
    if spec is None:
        return []
    wishes = ConfigRequest.model_validate(dict(approval.requested))
    changes = requested_changes(spec, wishes)
    return [
        MarkRow(kind=m.kind, name=m.name, before=m.before, after=m.after, gives=m.gives)
        for m in changes
    ]


def models_after(call: Call, approval: Approval) -> list[str]:
    """The models that the agent may use once its request is granted; hidden like its changes."""
    spec = _visible_spec(call, approval)
    if spec is None:
        return []
    wishes = ConfigRequest.model_validate(dict(approval.requested))
    capabilities = wishes.capabilities_after(spec.capabilities)
    after = {"model": wishes.model or spec.model, "capabilities": capabilities}
    return list(call.models.allowed_models(spec.model_copy(update=after)))


def _visible_spec(call: Call, approval: Approval) -> AgentSpec | None:
    """The spec that a new configuration changes; None where the reader may not see the agent."""
    name = call.hive.name(approval.agent)
    still = call.by_operator or (is_requester(call, approval) and is_above(call, approval.agent))
    if name is None or not still or approval.kind is not ApprovalKind.CONFIG:
        return None
    return call.hive.spec(name)


class FollowerRow(Result):
    agent: str = Field(description="Name of an agent that is built from the inputs.")
    effect: str = Field(
        description="Effect on the agent: `switch` (in place, while it runs), `restart`, `build`"
        " (for the first time; it starts if it should run), or `next start` (it is built"
        " now and runs with it from its next start on)."
    )


def list_followers(call: Call) -> list[FollowerRow]:
    """The agents that are rebuilt, in the order of the rollout."""
    names, hive = flake.agents_built_from_inputs(call.hive), call.hive
    return [FollowerRow(agent=name, effect=_effect(call, hive.spec(name))) for name in names]


def visible_followers(call: Call) -> list[FollowerRow]:
    """The agents that are rebuilt and that the caller can see."""
    seen = frozenset(visible_names(call.hive, call.caller))
    return [row for row in list_followers(call) if row.agent in seen]


def strongest_effect(rows: Iterable[FollowerRow]) -> Effect:
    """The strongest effect of newer inputs on running agents."""
    effects = {row.effect for row in rows}
    if effects & {Effect.RESTART, BUILD}:
        return Effect.RESTART
    return Effect.SWITCH if Effect.SWITCH in effects else Effect.NOTHING


def _effect(call: Call, spec: AgentSpec) -> str:
    """The effect when only the system differs.

    A running agent is switched in place, a stopped agent starts with it.

    See `effect` in `hive_core/plan/effect.py` and the deployer, which decide it after the build.
    """
    if spec.system is None:
        return BUILD
    run = call.ledger.runs.get(spec.id)
    if run is None or run.wanted is not DesiredState.RUNNING:
        return NEXT_START
    return Effect.SWITCH if call.states.state(spec.id) in _UP else Effect.RESTART
