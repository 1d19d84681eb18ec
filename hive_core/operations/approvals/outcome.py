"""How a request to the operator ends: one way for all ends, whoever brings them about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypedDict, Unpack

from hive_core.broker.call import Call
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.approval import Approval, ApprovalKind, ApprovalState
from hive_core.operations.notices import CONFIG, tell
from hive_core.plan.effect import undo
from hive_core.policy.relationship import ABOVE, ITSELF, relationship

REASON_MOST: Final = 4096
LINES_MOST: Final = 8192
_S = ApprovalState
# How each end is told, and the error that a job ends with (none: it went well).
_ENDS: Final = {
    _S.DEPLOYED: ("is deployed", ""),
    _S.REFUSED: ("was refused", "Conflict"),
    _S.DENIED: ("was denied by the operator", "NotAllowed"),
    _S.EXPIRED: ("has expired", "Expired"),
    _S.VOID: ("is void", "Conflict"),
    _S.FAILED: ("has failed", "Conflict"),
}
# The end of what concerns an agent that is no more, by the state in which it is met.
_GONE: Final = {
    _S.RECEIVED: "refuse", _S.PENDING: "void", _S.APPROVED: "void", _S.BUILDING: "void",
    _S.DEPLOYING: "fail", _S.WATCHING: "fail",
}  # fmt: skip
_WHAT: Final = {
    ApprovalKind.CONFIG: "the new configuration",
    ApprovalKind.ROLLBACK: "the way back",
    ApprovalKind.UPDATE: "the update",
}


def approval_topic(approval: str) -> str:
    """Touched whenever the approval took a step."""
    return f"approval:{approval}"


class OutcomeDetails(TypedDict, total=False):
    """What may be said beside the event: who decided, why, and what the agent logged last."""

    by: str
    reason: str
    lines: str


def end_approval(
    call: Call, approval: Approval, event: str, **how: Unpack[OutcomeDetails]
) -> frozenset[str]:
    """Take it to its end, end its job, and tell who asked and the parent; the topics to touch."""
    reason, lines = how.get("reason", "")[:REASON_MOST], how.get("lines", "")[-LINES_MOST:]
    by = how.get("by", "")
    found = call.ledger.approvals.move(approval.id, event, call.now, by=by, reason=reason)
    told, fault = _ENDS[found.state]
    sentence = f"{_subject(call, found)} {told}{f': {reason}' if reason else ''}"
    topics = {approval_topic(found.id)}
    job = call.ledger.jobs.get(found.job) if found.job else None
    if job is not None and job.ended is None:
        call.ledger.jobs.finish(job.id, f"{fault}: {sentence}" if fault else "", call.now)
        topics.add(f"job:{job.id}")
    body = f"{sentence}\napproval {found.id}, commit {found.binding.commit or '-'}"
    for name in audience(call, found):
        logged = f"\n\n{lines}" if lines and _may_read_logs(call, name, found) else ""
        topics |= tell(call, call.hive, name, CONFIG, body + logged)
    return frozenset(topics)


def end_approvals_of(call: Call, agent: str) -> frozenset[str]:
    """End everything open of an agent that is destroyed by this call; the topics to touch."""
    topics = set[str]()
    for each in call.ledger.approvals.of_agent(agent):
        topics |= end_approval(call, each, _GONE[each.state], reason="the agent was destroyed")
    return frozenset(topics)


def spec_without_trial(call: Call, spec: AgentSpec) -> AgentSpec:
    """The spec of an agent that is destroyed: without what was only on trial, which has failed."""
    for each in call.ledger.approvals.of_agent(spec.id):
        found = call.ledger.deploys.get(each.id)
        if found is not None and each.state in (_S.DEPLOYING, _S.WATCHING):
            why = "the agent was destroyed"
            call.ledger.generations.fail(spec.id, found.generation, why)
            return undo(spec, found.part("fields"), found.part("after"))
    return spec


def void_overtaken(call: Call, deployed: Approval) -> frozenset[str]:
    """End the undecided ones that were judged against what was there before."""
    topics = set[str]()
    for each in call.ledger.approvals.of_agent(deployed.agent):
        if each.id != deployed.id and each.state is ApprovalState.PENDING:
            topics |= end_approval(
                call, each, "void", reason="another configuration came in between"
            )
    return frozenset(topics)


def audience(call: Call, approval: Approval) -> Iterator[str]:
    """Who asked, and the parent of the agent (row H9), as far as they live; nobody twice."""
    asked, agent = call.hive.name(approval.requester), call.hive.name(approval.agent)
    parent = None if agent is None else call.hive.topology.parent(agent)
    yield from (name for name in dict.fromkeys((asked, parent)) if name is not None)


def _may_read_logs(call: Call, name: str, approval: Approval) -> bool:
    """Row H10: who asked may have lost the agent since."""
    agent = call.hive.name(approval.agent)
    return agent is not None and relationship(call.hive, name, agent) in (ITSELF, *ABOVE)


def _subject(call: Call, approval: Approval) -> str:
    if approval.kind is ApprovalKind.INPUTS:
        return "the update of the inputs"
    return f"{_WHAT[approval.kind]} of {display_name(call, approval.agent)}"


def display_name(call: Call, uuid: str) -> str:
    """The name of an agent, also of one that was destroyed; else its identity."""
    name = call.hive.name(uuid)
    if name is None and (archive := call.ledger.archives.get(uuid)) is not None:
        return archive.name
    return name or uuid
