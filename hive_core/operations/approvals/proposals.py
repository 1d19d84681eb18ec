"""What agents ask the operator for: one commit of a configuration, newer inputs of the flake."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached
from hive_core.ledger.approvals.storage import DAY, ApprovalRequest
from hive_core.model.agents.branches import branch_top
from hive_core.model.agents.capability import capability_fault, covers
from hive_core.model.config.approval import Approval, ApprovalKind, Binding
from hive_core.operations.approvals.outcome import approval_topic
from hive_core.operations.fields import Agent, WaitParams, bounded_text
from hive_core.operations.host.jobs import create_job
from hive_core.operations.mail.inbox_quota import standing_in
from hive_core.operations.notices import CONFIG, tell
from hive_core.policy.rules import ANCESTOR, COVERED, INPUTS, OPERATOR, PROPOSE, SELF

MESSAGE_BYTES: Final = 4096
META_UPDATE: Final = "meta.update"
GOAL: Final = "approval"  # of a job: reached when the approval has ended well
_COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
SEED: Final = "seed"  # of a job: reached when the seed lies in the agent's clone


def _check_full_commit(commit: str) -> str:
    if not _COMMIT.fullmatch(commit):
        raise ValueError("must be all 40 digits of a commit: no branch, no tag")
    return commit


def _check_input(name: str) -> str:
    if capability_fault(f"{META_UPDATE}:{name}"):
        raise ValueError(f"{name[:64]!r} is no name of an input")
    return name


Text = Annotated[str, bounded_text(MESSAGE_BYTES)]
Input = Annotated[str, AfterValidator(_check_input)]


class ApplyCommitParams(WaitParams):
    agent: Agent = Field(description="Whose configuration it is.")
    commit: Annotated[str, AfterValidator(_check_full_commit)] = Field(
        max_length=64, description="The commit, with all of its 40 digits."
    )
    message: Text = Field(min_length=1, description="What for; the operator reads it.")
    source: Agent | None = Field(
        None,
        description="Who has the commit: the agent itself when absent, or the caller, in its clone"
        " of the agent's configuration.",
    )


class UpdateInputsParams(WaitParams):
    inputs: list[Input] = Field([], max_length=64, description="Names; all of them when empty.")
    message: Text = Field("", description="What for; the operator reads it.")


class Requested(Result):
    approval: str = Field(description="What the operator decides; `get_approval` takes it.")
    job: str = Field(description="Ends when it is deployed and healthy, or will never be.")


class InitConfigParams(WaitParams):
    agent: Agent | None = Field(None, description="Whose; the caller's own when absent.")


class Reseeded(Result):
    agent: str = Field(description="The agent.")
    job: str = Field(description="Ends when the template lies in its clone.")


@operation(action="configure", allow=PROPOSE, target="agent", preposition="of")
def request_apply_commit(call: Call, params: ApplyCommitParams) -> Record[Requested]:
    """Ask the operator to let an agent run with one commit of its configuration.

    Exactly this commit is copied, checked and shown; nothing runs before it is approved. The
    parent of the agent is told, and told again how it ended.
    """
    spec = call.hive.spec(params.agent)
    source = _source(call, params)
    if spec.config == params.commit:
        raise Conflict(f"cannot request that of {params.agent}: it runs with this commit already")
    _check_not_requested(call, params.agent, spec.id, params.commit)
    _check_branch_quota(call)
    binding = Binding(params.commit, base=spec.config or "", meta=call.hive.commit)
    request = ApprovalRequest(
        ApprovalKind.CONFIG, spec.id, call.uuid, source, params.message, binding
    )
    found = _create_request(call, "request_apply_commit", request)
    wakes = {approval_topic(found.id), *_tell_parent(call, params.agent, found)}
    fields = {"approval": found.id, "commit": params.commit, "source": source}
    return Record(Requested(approval=found.id, job=found.job), frozenset(wakes), fields)


def _coverage_facts(call: Call, params: UpdateInputsParams) -> frozenset[str]:
    """Whether the caller holds the capability for each input that is named."""
    spec = call.hive.specs.get(call.caller)
    held = spec.capabilities if spec else ()
    all_ = all(covers(held, f"{META_UPDATE}:{each}") for each in params.inputs)
    return frozenset({COVERED}) if params.inputs and all_ else frozenset()


@operation(action="configure", allow=INPUTS, facts=_coverage_facts)
def request_update_meta_inputs(call: Call, params: UpdateInputsParams) -> Record[Requested]:
    """Ask the operator for newer inputs of the flake that `nix` images are built from.

    It is the only way by which the lock file changes. Agents take them up by `update`.
    """
    inputs = sorted(set(params.inputs))
    for each in inputs:
        if each not in call.settings.nix.inputs:
            raise InvalidArgument(f"no input called {each}", field="inputs")
    _check_branch_quota(call)
    request = ApprovalRequest(
        ApprovalKind.INPUTS, "", call.uuid, "", params.message, Binding("", meta=call.hive.commit),
        review={"inputs": inputs},
    )  # fmt: skip
    found = _create_request(call, "request_update_meta_inputs", request)
    fields = {"approval": found.id, "inputs": inputs}
    requested = Requested(approval=found.id, job=found.job)
    return Record(requested, frozenset({approval_topic(found.id)}), fields)


@operation(
    action="configure",
    allow=SELF | ANCESTOR | OPERATOR,
    target="agent",
    preposition="of",
    shares={"request_init_config": "agent"},
)
def init_config(call: Call, params: InitConfigParams) -> Record[Reseeded]:
    """Put the template of a configuration into an agent's clone, in place of what is there.

    What was there is kept beside it, in `.before`. What the agent runs with stays as it is until
    a commit is approved. `request_init_config` is this where it names an `agent`, and `spawn` where
    it names a new one (`name`).
    """
    name = params.agent or call.caller
    uuid = call.hive.spec(name).id
    job = create_job(call, "init_config", {uuid: SEED})
    return Record(Reseeded(agent=name, job=job), frozenset({f"{SEED}:{uuid}"}))


def _source(call: Call, params: ApplyCommitParams) -> str:
    """UUID of whose storage holds the commit. A name of anybody else is answered alike."""
    name = params.source or params.agent
    if name not in (params.agent, call.caller) and not call.by_operator:
        raise InvalidArgument(f"is neither {params.agent} nor yourself", field="source")
    return call.hive.spec(name).id


def _check_not_requested(call: Call, agent: str, uuid: str, commit: str) -> None:
    for each in call.ledger.approvals.of_agent(uuid):
        if each.kind is ApprovalKind.CONFIG and each.binding.commit == commit:
            reason = f"it was asked for already, as {each.id}"
            raise Conflict(f"cannot request that of {agent}: {reason}")


def _check_branch_quota(call: Call) -> None:
    """No branch of the tree tires the operator (attack 23).

    A branch is everyone at or below the same child of a root; a root is one by itself. Who
    requests is counted, and who was destroyed meanwhile by the nearest above it that lives: so
    making others that ask, or ending them, gains nothing, and no branch takes another's turn.
    """
    if call.by_operator:
        return
    bounds, mine = call.settings.approvals, branch_top(call.hive, call.caller)
    names = (
        (standing_in(call, requester), undecided)
        for requester, undecided in call.ledger.approvals.requesters(call.now - DAY)
    )
    same = [undecided for name, undecided in names if name and branch_top(call.hive, name) == mine]
    if sum(same) >= bounds.pending:
        reason = f"{bounds.pending} requests of {mine} and below wait for the operator"
        raise LimitReached(f"cannot request that: {reason}")
    if len(same) >= bounds.a_day:
        reason = f"{mine} and below made {bounds.a_day} requests within a day"
        raise LimitReached(f"cannot request that: {reason}")


def _create_request(call: Call, operation_: str, request: ApprovalRequest) -> Approval:
    """The row, with the job that ends when it has ended."""
    expires = call.now + call.settings.approvals.expires
    found = call.ledger.approvals.create(request, call.now, expires)
    job = create_job(call, operation_, {request.agent or call.uuid: f"{GOAL}:{found.id}"})
    call.ledger.approvals.attach(found.id, job)
    return call.ledger.approvals.existing([found.id])[0]


def _tell_parent(call: Call, agent: str, found: Approval) -> frozenset[str]:
    """Row H9; who asks knows it already."""
    parent = call.hive.topology.parent(agent)
    if parent in (None, call.caller):
        return frozenset()
    body = (
        f"{call.caller} asked the operator for a new configuration of {agent}\n"
        f"approval {found.id}, commit {found.binding.commit}"
    )
    return tell(call, call.hive, parent, CONFIG, body)
