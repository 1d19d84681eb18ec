"""The end of a request to the operator: one function for all outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypedDict, Unpack

from hive_core.broker.call import Call
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.config.approval import Approval, ApprovalKind, ApprovalState
from hive_core.operations.notices import CONFIG, send_notice
from hive_core.plan.effect import undo
from hive_core.policy.relationship import ABOVE, ITSELF, relationship

WAITS_EVENT: Final = "approval"  # the kind of event of a request that waits for the operator
REASON_MOST: Final = 4096
LINES_MOST: Final = 8192
_S = ApprovalState
# The phrase for each outcome, and the error of its job (none: success).
_ENDS: Final = {
    _S.DEPLOYED: ("is deployed", ""),
    _S.REFUSED: ("was refused", "Conflict"),
    _S.DENIED: ("was denied by the operator", "NotAllowed"),
    _S.EXPIRED: ("has expired", "Expired"),
    _S.VOID: ("is void", "Conflict"),
    _S.FAILED: ("has failed", "Conflict"),
}
# The event that ends the request of a destroyed agent, by its state.
_GONE: Final = {
    _S.RECEIVED: "refuse", _S.PENDING: "void", _S.APPROVED: "void", _S.BUILDING: "void",
    _S.DEPLOYING: "fail", _S.WATCHING: "fail",
}  # fmt: skip
_WHAT: Final = {
    ApprovalKind.CONFIG: "the new configuration",
    ApprovalKind.ROLLBACK: "the rollback",
    ApprovalKind.UPDATE: "the update",
}


def approval_topic(approval: str) -> str:
    """Notified whenever the approval changes its state."""
    return f"approval:{approval}"


class OutcomeDetails(TypedDict, total=False):
    """Optional details: who decided, the reason, and the last log lines of the agent."""

    by: str
    reason: str
    lines: str


def ask_operator(call: Call, approval: Approval) -> Mapping[str, object]:
    """Let a request that was checked wait for the operator; return the fields of its event.

    Nothing else says in the log that it waits, and who waits for it may not poll.
    """
    call.ledger.approvals.move(approval.id, "check", call.now)
    call.notify(approval_topic(approval.id))
    name = call.hive.name(approval.agent)
    return {"approval": approval.id, **({"target_name": name} if name else {})}


def end_approval(call: Call, approval: Approval, event: str, **how: Unpack[OutcomeDetails]) -> None:
    """End an approval and its job, and notify the requester and the agent's parent."""
    reason, lines = how.get("reason", "")[:REASON_MOST], how.get("lines", "")[-LINES_MOST:]
    by = how.get("by", "")
    ended = call.ledger.approvals.move(approval.id, event, call.now, by=by, reason=reason)
    outcome, fault = _ENDS[ended.state]
    sentence = f"{_subject(call, ended)} {outcome}{f': {reason}' if reason else ''}"
    call.notify(approval_topic(ended.id))
    job = call.ledger.jobs.get(ended.job) if ended.job else None
    if job is not None and job.ended is None:
        call.ledger.jobs.finish(job.id, f"{fault}: {sentence}" if fault else "", call.now)
        call.notify(f"job:{job.id}")
    body = f"{sentence}\napproval {ended.id}, commit {ended.binding.commit or '-'}"
    for name in audience(call, ended):
        logged = f"\n\n{lines}" if lines and _may_read_logs(call, name, ended) else ""
        send_notice(call, call.hive, name, CONFIG, body + logged)


def end_approvals_of(call: Call, agent: str) -> None:
    """End all open requests of an agent that this call destroys."""
    for approval in call.ledger.approvals.of_agent(agent):
        end_approval(call, approval, _GONE[approval.state], reason="the agent was destroyed")


def spec_without_trial(call: Call, spec: AgentSpec) -> AgentSpec:
    """The spec of a destroyed agent, without values of a deploy that was still on trial."""
    for approval in call.ledger.approvals.of_agent(spec.id):
        deploy = call.ledger.deploys.get(approval.id)
        if deploy is not None and approval.state in (_S.DEPLOYING, _S.WATCHING):
            why = "the agent was destroyed"
            call.ledger.generations.fail(spec.id, deploy.generation, why)
            return undo(spec, deploy.part("fields"), deploy.part("after"))
    return spec


def void_overtaken(call: Call, deployed: Approval) -> None:
    """Void the undecided requests that were compared with what was deployed before."""
    for approval in call.ledger.approvals.of_agent(deployed.agent):
        if approval.id != deployed.id and approval.state is ApprovalState.PENDING:
            end_approval(call, approval, "void", reason="another configuration was deployed since")


def audience(call: Call, approval: Approval) -> Iterator[str]:
    """The requester, and the parent of the agent (row H9), if they are alive; each once."""
    asked, agent = call.hive.name(approval.requester), call.hive.name(approval.agent)
    parent = None if agent is None else call.hive.topology.parent(agent)
    yield from (name for name in dict.fromkeys((asked, parent)) if name is not None)


def _may_read_logs(call: Call, name: str, approval: Approval) -> bool:
    """Whether the requester may read the logs.

    It may have lost access to the agent since (row H10).
    """
    agent = call.hive.name(approval.agent)
    return agent is not None and relationship(call.hive, name, agent) in (ITSELF, *ABOVE)


def _subject(call: Call, approval: Approval) -> str:
    if approval.kind is ApprovalKind.INPUTS:
        return "the update of the inputs"
    return f"{_WHAT[approval.kind]} of {display_name(call, approval.agent)}"


def display_name(call: Call, uuid: str) -> str:
    """The name of an agent, also of a destroyed one; otherwise its UUID."""
    name = call.hive.name(uuid)
    if name is None and (archive := call.ledger.archives.get(uuid)) is not None:
        return archive.name
    return name or uuid
