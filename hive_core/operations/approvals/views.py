"""An approval as its reader may see it: who asked all of it, an ancestor that there is one."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.model.config.agent_config import ConfigRequest
from hive_core.model.config.approval import Approval, ApprovalKind
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.operations.approvals.outcome import display_name
from hive_core.plan.effect import requested_changes
from hive_core.policy.relationship import ABOVE, ITSELF, relationship


class ApprovalRow(Result):
    id: str = Field(description="The approval.")
    kind: str = Field(description="config, inputs, rollback or update.")
    agent: str = Field(description="Name of the agent it is about; empty: the inputs of all.")
    agent_uuid: str = Field(description="Its identity.")
    requester: str = Field(description="Name of who asked, or `operator`.")
    requester_uuid: str = Field(description="The identity of who asked.")
    source: str = Field(description="Name of whose clone the commit comes from; empty: nobody's.")
    state: str = Field(description="How far it is.")
    commit: str = Field(
        description="Exactly what is asked for, of newer inputs the first digits of the SHA-256 of"
        " the lock; empty: not known yet."
    )
    base: str = Field(
        description="What it was judged against: the commit deployed then; of newer inputs the"
        " hash of the lock."
    )
    effect: str = Field(description="What it does to a running agent.")
    message: str = Field(description="What the requester says; not to be believed.")
    created: float = Field(description="Seconds since 1970.")
    expires: float = Field(description="When it is void without a decision.")
    decided: float | None = Field(description="When somebody decided; null before.")
    decided_by: str = Field(description="Who decided.")
    ended: float | None = Field(description="When it came to its end; null before.")
    reason: str = Field(description="Why it ended so.")
    job: str = Field(description="Ends with it.")


class MarkRow(Result):
    kind: str = Field(description="capability, mount, network, secret, limit, command, boot...")
    name: str = Field(description="Which one; `none` when it asks for none.")
    before: str = Field(description="What it has.")
    after: str = Field(description="What it asks for; a command as its agent wrote it.")
    gives: bool = Field(description="It could not do that, or not so much, before.")


def is_requester(call: Call, approval: Approval) -> bool:
    return call.by_operator or approval.requester == call.uuid


def can_see(call: Call, approval: Approval) -> bool:
    return is_requester(call, approval) or is_above(call, approval.agent)


def is_above(call: Call, agent: str) -> bool:
    name = call.hive.name(agent)
    return name is not None and relationship(call.hive, call.caller, name) in (ITSELF, *ABOVE)


def approval_row(call: Call, each: Approval) -> ApprovalRow:
    whole = is_requester(call, each)
    return ApprovalRow(
        id=each.id,
        kind=each.kind,
        agent=display_name(call, each.agent) if each.agent else "",
        agent_uuid=each.agent,
        requester=display_name(call, each.requester),
        requester_uuid=each.requester,
        source=display_name(call, each.source) if each.source else "",
        state=each.state,
        commit=each.binding.commit,
        base=_base(each),
        effect=each.effect,
        message=each.message if whole else "",
        created=each.created,
        expires=each.expires,
        decided=each.decided,
        decided_by=each.decided_by if call.by_operator else _decider(each),
        ended=each.ended,
        reason=each.reason if whole else "",
        job=each.job if whole else "",
    )


def visible_figures(call: Call, each: Approval) -> dict[str, object]:
    """What the check found; who did not ask sees numbers, and no words of the commit."""
    whole = is_requester(call, each)
    return {name: value for name, value in each.review.items() if whole or isinstance(value, int)}


def _base(each: Approval) -> str:
    """Of inputs the hash of the lock in force then, in as many digits as that of the new one."""
    return each.binding.lock[:40] if each.kind is ApprovalKind.INPUTS else each.binding.base


def _decider(each: Approval) -> str:
    """Agents learn that the operator decided, not which one."""
    return THE_OPERATOR if each.decided_by else ""


def mark_rows(call: Call, approval: Approval) -> list[MarkRow]:
    """By what the agent has now, which who asked may have lost sight of meanwhile."""
    name = call.hive.name(approval.agent)
    still = call.by_operator or (is_requester(call, approval) and is_above(call, approval.agent))
    if name is None or not still or approval.kind is not ApprovalKind.CONFIG:
        return []
    wishes = ConfigRequest.model_validate(dict(approval.requested))
    found = requested_changes(call.hive.spec(name), wishes)
    return [
        MarkRow(kind=m.kind, name=m.name, before=m.before, after=m.after, gives=m.gives)
        for m in found
    ]
