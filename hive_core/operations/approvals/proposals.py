"""Requests of agents to the operator: a commit of a configuration, newer inputs of the flake."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached
from hive_core.ledger.approvals.storage import DAY, ApprovalRequest
from hive_core.model.agents.capability import capability_fault, covers
from hive_core.model.agents.hive import branch_top
from hive_core.model.config.approval import Approval, ApprovalKind, Binding
from hive_core.operations.approvals.outcome import approval_topic
from hive_core.operations.fields import Agent, WaitParams, bounded_text
from hive_core.operations.host.jobs import create_job
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.notices import CONFIG, send_notice
from hive_core.policy.rules import ANCESTOR, COVERED, INPUTS, OPERATOR, PROPOSE, SELF

MESSAGE_BYTES: Final = 4096
META_UPDATE: Final = "meta.update"
GOAL: Final = "approval"  # goal of a job: the approval succeeded
_COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
SEED: Final = "seed"  # goal of a job: the template is in the agent's clone


def _check_full_commit(commit: str) -> str:
    if not _COMMIT.fullmatch(commit):
        raise ValueError("must be all 40 digits of a commit, not a branch or a tag")
    return commit


def _check_input(name: str) -> str:
    if capability_fault(f"{META_UPDATE}:{name}"):
        raise ValueError(f"{name[:64]!r} is not a valid name of an input")
    return name


Text = Annotated[str, bounded_text(MESSAGE_BYTES)]
Input = Annotated[str, AfterValidator(_check_input)]


class ApplyCommitParams(WaitParams):
    agent: Agent = Field(description="The agent to configure.")
    commit: Annotated[str, AfterValidator(_check_full_commit)] = Field(
        max_length=64, description="The commit, with all of its 40 digits."
    )
    message: Text = Field(min_length=1, description="Reason for the operator.")
    source: Agent | None = Field(
        None,
        description="Agent whose clone has the commit: the agent itself (default), or the caller"
        " with its clone of the agent's configuration.",
    )


class UpdateInputsParams(WaitParams):
    inputs: list[Input] = Field([], max_length=64, description="Names of inputs; empty: all.")
    message: Text = Field("", description="Reason for the operator.")


class Requested(Result):
    approval: str = Field(
        description="The approval that the operator decides; `get_approval` takes it."
    )
    job: str = Field(
        description="The job; it ends when the request is deployed and healthy, or has failed."
    )


class InitConfigParams(WaitParams):
    agent: Agent | None = Field(None, description="The agent; absent: the caller itself.")


class Reseeded(Result):
    agent: str = Field(description="The agent.")
    job: str = Field(description="The job; it ends when the template is in the clone.")


@operation(action="configure", allow=PROPOSE, target="agent", preposition="of")
def request_apply_commit(call: Call, params: ApplyCommitParams) -> Record[Requested]:
    """Ask the operator to let an agent run with one commit of its configuration.

    Exactly this commit is copied, checked and shown; nothing of it runs before it is approved. The
    parent of the agent gets a message now, and another one with the outcome.
    """
    spec = call.hive.spec(params.agent)
    source = _source(call, params)
    if spec.config == params.commit:
        raise Conflict(
            f"cannot request a commit for {params.agent}: it runs with this commit already"
        )
    _check_not_requested(call, params.agent, spec.id, params.commit)
    _check_branch_quota(call)
    binding = Binding(params.commit, base=spec.config or "", meta=call.hive.commit)
    request = ApprovalRequest(
        ApprovalKind.CONFIG, spec.id, call.uuid, source, params.message, binding
    )
    approval = _create_request(call, "request_apply_commit", request)
    call.notify(approval_topic(approval.id))
    _tell_parent(call, params.agent, approval)
    fields = {"approval": approval.id, "commit": params.commit, "source": source}
    return Record(Requested(approval=approval.id, job=approval.job), fields=fields)


def _coverage_facts(call: Call, params: UpdateInputsParams) -> frozenset[str]:
    """A fact if the caller holds the capability for each named input; otherwise none."""
    spec = call.hive.specs.get(call.caller)
    held = spec.capabilities if spec else ()
    all_ = all(covers(held, f"{META_UPDATE}:{name}") for name in params.inputs)
    return frozenset({COVERED}) if params.inputs and all_ else frozenset()


@operation(action="configure", allow=INPUTS, facts=_coverage_facts, open_world=True)
def request_update_meta_inputs(call: Call, params: UpdateInputsParams) -> Record[Requested]:
    """Ask the operator for newer inputs of the flake that `nix` images are built from.

    Only such a request changes the lock file. `update` rebuilds agents with the new inputs.
    """
    inputs = sorted(set(params.inputs))
    for name in inputs:
        if name not in call.settings.nix.inputs:
            raise InvalidArgument(f"no input {name}", field="inputs")
    _check_branch_quota(call)
    request = ApprovalRequest(
        ApprovalKind.INPUTS, "", call.uuid, "", params.message, Binding("", meta=call.hive.commit),
        review={"inputs": inputs},
    )  # fmt: skip
    approval = _create_request(call, "request_update_meta_inputs", request)
    fields = {"approval": approval.id, "inputs": inputs}
    requested = Requested(approval=approval.id, job=approval.job)
    call.notify(approval_topic(approval.id))
    return Record(requested, fields=fields)


@operation(
    action="configure",
    allow=SELF | ANCESTOR | OPERATOR,
    target="agent",
    preposition="of",
    shares={"request_init_config": "agent"},
)
def init_config(call: Call, params: InitConfigParams) -> Record[Reseeded]:
    """Put the template of a configuration into an agent's clone, in place of its contents.

    The old contents are kept beside it, in `.before`. The deployed configuration does not change
    until a commit is approved. A call of `request_init_config` with `agent` is this operation; with
    `name`, the name of a new agent, it is `spawn`.
    """
    name = params.agent or call.caller
    uuid = call.hive.spec(name).id
    job = create_job(call, "init_config", {uuid: SEED})
    call.notify(f"{SEED}:{uuid}")
    return Record(Reseeded(agent=name, job=job))


def _source(call: Call, params: ApplyCommitParams) -> str:
    """UUID of the agent whose clone has the commit."""
    name = params.source or params.agent
    if name not in (params.agent, call.caller) and not call.by_operator:
        raise InvalidArgument(f"must be {params.agent} or the caller", field="source")
    return call.hive.spec(name).id


def _check_not_requested(call: Call, agent: str, uuid: str, commit: str) -> None:
    for approval in call.ledger.approvals.of_agent(uuid):
        if approval.kind is ApprovalKind.CONFIG and approval.binding.commit == commit:
            reason = f"approval {approval.id} requests it already"
            raise Conflict(f"cannot request a commit for {agent}: {reason}")


def _check_branch_quota(call: Call) -> None:
    """Limit the requests of each branch of the tree (attack 23).

    A branch is all agents at or below the same child of a root; a root is a branch by itself. A
    request counts for its requester, and that of a destroyed agent for its nearest living ancestor:
    so a branch gains nothing by creating or destroying requesters, and cannot use the quota of
    another branch.
    """
    if call.by_operator:
        return
    top = cache(partial(branch_top, call.hive))  # few names make many requests
    bounds, mine = call.settings.approvals, top(call.caller)
    names = (
        (standing_in(call, requester), undecided)
        for requester, undecided in call.ledger.approvals.requesters(call.now - DAY)
    )
    same = [undecided for name, undecided in names if name and top(name) == mine]
    if sum(same) >= bounds.pending:
        reason = (
            f"limit of undecided requests ({bounds.pending}) of {mine} and its descendants reached"
        )
        raise LimitReached(f"cannot make a request: {reason}")
    if len(same) >= bounds.a_day:
        reason = f"limit of requests a day ({bounds.a_day}) of {mine} and its descendants reached"
        raise LimitReached(f"cannot make a request: {reason}")


def _create_request(call: Call, operation_: str, request: ApprovalRequest) -> Approval:
    """The approval, with the job that ends with it."""
    expires = call.now + call.settings.approvals.expires
    approval = call.ledger.approvals.create(request, call.now, expires)
    job = create_job(call, operation_, {request.agent or call.uuid: f"{GOAL}:{approval.id}"})
    call.ledger.approvals.attach(approval.id, job)
    return call.ledger.approvals.find_all([approval.id])[0]


def _tell_parent(call: Call, agent: str, approval: Approval) -> None:
    """Notify the parent, unless it is the caller (row H9)."""
    parent = call.hive.topology.parent(agent)
    if parent is None or parent == call.caller:
        return
    body = (
        f"{call.caller} asked the operator for a new configuration of {agent}\n"
        f"approval {approval.id}, commit {approval.binding.commit}"
    )
    send_notice(call, call.hive, parent, CONFIG, body)
