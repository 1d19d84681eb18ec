"""Generations of agents: history, rollback, and update of built systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.login_rule import LoginRule
from hive_core.broker.operation import Result, operation
from hive_core.errors import Conflict, InvalidArgument, NotFound
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.model.config.approval import Approval, ApprovalKind, Binding, Generation
from hive_core.operations.approvals.outcome import approval_topic, display_name
from hive_core.operations.approvals.proposals import GOAL
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.pages import Page, Paged, reply_bytes, take_fitting
from hive_core.plan.rollout_waves import waves
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

ROLLOUT: Final = "rollout"
_NUMBER_MOST: Final = 9  # digits; an approval has 12


class HistoryParams(Paged):
    agent: Agent | None = Field(
        None,
        description="The agent; absent: the caller itself, or all agents when the operator calls.",
    )
    after: str | None = Field(
        None,
        pattern=r"^[0-9a-f-]{36}:[0-9]{1,12}$",
        description="`next` of the page before; absent: the first page.",
    )


class GenerationRow(Result):
    agent: str = Field(description="Name of the agent.")
    number: int = Field(
        description="Number of the generation, from 1 for each agent; `rollback` takes it."
    )
    current: bool = Field(description="Whether the agent runs with it.")
    commit: str = Field(description="The commit of its configuration.")
    approval: str = Field(description="The approval that made it; empty for the template.")
    kind: str = Field(description="config, rollback or update; empty for the template.")
    requester: str = Field(description="Name of the requester, or `operator`.")
    at: float = Field(description="When it was deployed, in seconds since 1970.")
    system: str = Field(description="Store path of the system of the `nix` image.")
    failed: str = Field(description="Why it did not become healthy; empty when it did.")


class GenerationPage(Page):
    generations: list[GenerationRow] = Field(description="The generations, the newest first.")


class RollbackParams(WaitParams):
    agent: Agent = Field(description="The agent.")
    to: str | None = Field(
        None,
        pattern=r"^([0-9]{1,9}|[0-9a-f]{12})$",
        description="A number of `history`, or the approval that made it; absent: the generation"
        " before.",
    )


class RollbackResult(Result):
    agent: str = Field(description="The agent.")
    approval: str = Field(description="The approval of this rollback.")
    generation: int = Field(description="The generation to which the agent returns.")
    commit: str = Field(description="The commit of that generation.")
    job: str = Field(
        description="The job; it ends when the agent is healthy with it, or the rollback failed."
    )


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def history(call: Call, params: HistoryParams) -> GenerationPage:
    """List the generations of an agent, the newest first, with those that failed and why."""
    name = params.agent or (None if call.by_operator else call.caller)
    agent = None if name is None else call.hive.spec(name).id
    generations = call.ledger.generations.page(agent, params.most, _page_start(call, params.after))
    current = {
        generation: _current_number(call, generation)
        for generation in {generation.agent for generation in generations}
    }
    origins = call.ledger.approvals.origins({generation.approval for generation in generations})
    rows = (
        _row(call, generation, current[generation.agent], origins.get(generation.approval))
        for generation in generations
    )
    fit = list(take_fitting(rows, lambda row: reply_bytes(row.system, row.failed)))
    whole = len(fit) == len(generations) < params.most
    last = generations[len(fit) - 1] if fit else None
    return GenerationPage(
        generations=fit, next=None if whole or not last else f"{last.agent}:{last.number}"
    )


def _bound_target(call: Call, params: RollbackParams) -> str:
    """What a confirmation of `rollback` is bound to: from where it goes, and to where."""
    spec = call.hive.spec(params.agent)
    target = _rollback_target(call, params.agent, spec.id, params.to)
    return f"{spec.id} {spec.config} {target.number} {target.commit}"


@operation(
    action="administer",
    allow=OPERATOR,
    target="agent",
    login=LoginRule(confirm="each", bound=_bound_target),
)
def rollback(call: Call, params: RollbackParams) -> Record[RollbackResult]:
    """Roll an agent back to an earlier generation.

    It is deployed like a new configuration and becomes a new generation. Capabilities that were
    revoked since are not restored.
    """
    spec = call.hive.spec(params.agent)
    target = _rollback_target(call, params.agent, spec.id, params.to)
    request = ApprovalRequest(
        ApprovalKind.ROLLBACK,
        spec.id,
        call.uuid,
        "",
        "",
        Binding(target.commit, base=spec.config or ""),
        review={"generation": target.number},
    )
    approval = _create_approved_request(call, request, "rollback")
    job = create_job(call, "rollback", {spec.id: f"{GOAL}:{approval.id}"})
    call.ledger.approvals.attach(approval.id, job)
    result = RollbackResult(
        agent=params.agent, approval=approval.id, generation=target.number, commit=target.commit,
        job=job,
    )  # fmt: skip
    fields = {"approval": approval.id, "generation": target.number, "commit": target.commit}
    call.notify(approval_topic(approval.id))
    return Record(result, fields=fields)


def roll_out(call: Call, names: Sequence[str], job: str) -> None:
    """Build and switch agents of image `nix`, several of them in waves."""
    if len(names) == 1:
        call.notify(approval_topic(create_update(call, names[0], job).id))
        return
    bounds = call.settings.deploy
    for number, wave in enumerate(waves(names, bounds.first_wave, bounds.second_wave)):
        for name in wave:
            call.ledger.rollouts.put(job, number, call.hive.spec(name).id)
    if names:
        call.notify(f"{ROLLOUT}:{job}")


def create_update(call: Call, name: str, job: str = "") -> Approval:
    """The approval to build an agent of image `nix` from the current inputs, for the caller.

    Its commit was approved before, and so were the inputs. `job` ends with it.
    """
    spec = call.hive.spec(name)
    commit = spec.config or ""
    request = ApprovalRequest(
        ApprovalKind.UPDATE, spec.id, call.uuid, "", "", Binding(commit, base=commit), job
    )  # fmt: skip
    return _create_approved_request(call, request, "update")


def _create_approved_request(call: Call, request: ApprovalRequest, operation_: str) -> Approval:
    """A request that its caller may decide: it is created as approved."""
    approvals = call.ledger.approvals
    for approval in approvals.of_agent(request.agent):
        if approval.kind is request.kind and approval.binding.commit == request.binding.commit:
            name = display_name(call, request.agent)
            raise Conflict(f"cannot {operation_} {name}: approval {approval.id} is in progress")
    created = approvals.create(request, call.now, call.now + call.settings.approvals.expires)
    by = call.person if call.by_operator else call.uuid
    approvals.move(created.id, "check", call.now)
    return approvals.move(created.id, "approve", call.now, by=by)


def _rollback_target(call: Call, name: str, uuid: str, to: str | None) -> Generation:
    """The generation to return to; one that failed is refused."""
    generations = call.ledger.generations.all(uuid)
    current = call.ledger.generations.newest(uuid)
    if current is None:
        raise NotFound(f"cannot roll back {name}: it has no generations")
    if to is None:
        earlier = (generation for generation in generations if generation.number < current.number)
        target = next((generation for generation in earlier if _differs(generation, current)), None)
    elif len(to) <= _NUMBER_MOST:
        target = next(
            (generation for generation in generations if generation.number == int(to)), None
        )
    else:
        target = next((generation for generation in generations if generation.approval == to), None)
    if target is None:
        raise NotFound(f"cannot roll back {name}: no such generation")
    if target.failed:
        raise InvalidArgument(
            f"generation {target.number} of {name} failed; choose another one", field="to"
        )
    if target.number == current.number:
        raise Conflict(f"cannot roll back {name}: it runs with generation {target.number}")
    return target


def _differs(generation: Generation, current: Generation) -> bool:
    same = (generation.commit, generation.system) == (current.commit, current.system)
    return not generation.failed and not same


def _page_start(call: Call, after: str | None) -> tuple[float, str, int] | None:
    if after is None:
        return None
    agent, _, number = after.partition(":")
    generation = call.ledger.generations.get(agent, int(number))
    if generation is None:
        raise InvalidArgument("is not `next` of a page", field="after")
    return generation.at, generation.agent, generation.number


def _current_number(call: Call, agent: str) -> int:
    newest = call.ledger.generations.newest(agent)
    return newest.number if newest else 0


def _row(
    call: Call, generation: Generation, current: int, origin: tuple[str, str] | None
) -> GenerationRow:
    kind, requester = origin or ("", "")
    return GenerationRow(
        agent=display_name(call, generation.agent),
        number=generation.number,
        current=generation.number == current,
        commit=generation.commit,
        approval=generation.approval,
        kind=kind,
        requester=display_name(call, requester) if requester else "",
        at=generation.at,
        system=generation.system,
        failed=generation.failed,
    )
