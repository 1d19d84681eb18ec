"""What each agent ran with, and the way back: history, rollback, update of what is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result, operation
from hive_core.errors import Conflict, InvalidArgument, NotFound
from hive_core.ledger.approvals.storage import ApprovalRequest
from hive_core.model.config.approval import Approval, ApprovalKind, Binding, Generation
from hive_core.operations.approvals.outcome import approval_topic, display_name
from hive_core.operations.approvals.proposals import GOAL
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.pages import Page, Paged, fitting, written
from hive_core.plan.rollout_waves import waves
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

ROLLOUT: Final = "rollout"
_NUMBER_MOST: Final = 9  # digits; an approval has 12


class HistoryParams(Paged):
    agent: Agent | None = Field(
        None, description="Whose; absent: the caller's own, or of all when the operator asks."
    )
    after: str | None = Field(
        None, pattern=r"^[0-9a-f-]{36}:[0-9]{1,12}$",
        description="`next` of the page before; absent for the first page.",
    )  # fmt: skip


class GenerationRow(Result):
    agent: str = Field(description="Name of the agent.")
    number: int = Field(description="Counts from 1 for each agent; `rollback` takes it.")
    current: bool = Field(description="The agent runs with it.")
    commit: str = Field(description="The commit of its configuration.")
    approval: str = Field(description="What it was approved as; empty for the template.")
    kind: str = Field(description="config, rollback or update; empty for the template.")
    requester: str = Field(description="Name of who asked, or `operator`.")
    at: float = Field(description="Seconds since 1970.")
    system: str = Field(description="Store path of the system of the `nix` image.")
    failed: str = Field(description="Why it did not become healthy; empty when it did.")


class GenerationPage(Page):
    generations: list[GenerationRow] = Field(description="The newest first.")


class RollbackParams(WaitParams):
    agent: Agent = Field(description="The agent.")
    to: str | None = Field(
        None, pattern=r"^([0-9]{1,9}|[0-9a-f]{12})$",
        description="A number of `history`, or the approval that made it; absent: the one before.",
    )  # fmt: skip


class RollbackResult(Result):
    agent: str = Field(description="The agent.")
    approval: str = Field(description="The record of it.")
    generation: int = Field(description="What it goes back to.")
    commit: str = Field(description="The commit of that.")
    job: str = Field(description="Ends when it is deployed and healthy, or will never be.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def history(call: Call, params: HistoryParams) -> GenerationPage:
    """List what an agent ran with, the newest first, with what failed and why."""
    name = params.agent or (None if call.by_operator else call.caller)
    agent = None if name is None else call.hive.spec(name).id
    found = call.ledger.generations.page(agent, params.most, _page_start(call, params.after))
    current = {each: _current_number(call, each) for each in {each.agent for each in found}}
    origins = call.ledger.approvals.origins({each.approval for each in found})
    rows = (_row(call, each, current[each.agent], origins.get(each.approval)) for each in found)
    fit = list(fitting(rows, lambda row: written(row.system, row.failed)))
    whole = len(fit) == len(found) < params.most
    last = found[len(fit) - 1] if fit else None
    return GenerationPage(
        generations=fit, next=None if whole or not last else f"{last.agent}:{last.number}"
    )


@operation(action="administer", allow=OPERATOR, target="agent")
def rollback(call: Call, params: RollbackParams) -> Record[RollbackResult]:
    """Let an agent run again with what it ran with before.

    It is deployed like a new configuration and becomes a new generation. Capabilities that were
    taken from the agent since do not come back with it.
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
    found = _create_approved(call, request, "rollback")
    job = create_job(call, "rollback", {spec.id: f"{GOAL}:{found.id}"})
    call.ledger.approvals.attach(found.id, job)
    result = RollbackResult(
        agent=params.agent, approval=found.id, generation=target.number, commit=target.commit,
        job=job,
    )  # fmt: skip
    fields = {"approval": found.id, "generation": target.number, "commit": target.commit}
    return Record(result, frozenset({approval_topic(found.id)}), fields)


def roll_out(call: Call, names: Sequence[str], job: str) -> frozenset[str]:
    """Have agents of image `nix` built and switched, several of them in waves; topics to touch."""
    if len(names) == 1:
        return frozenset({approval_topic(create_update(call, names[0], job).id)})
    bounds = call.settings.deploy
    for number, wave in enumerate(waves(names, bounds.first_wave, bounds.second_wave)):
        for name in wave:
            call.ledger.waves.put(job, number, call.hive.spec(name).id)
    return frozenset({f"{ROLLOUT}:{job}"} if names else ())


def create_update(call: Call, name: str, job: str = "") -> Approval:
    """What lets an agent of image `nix` be built from the inputs of now, by the caller's right.

    Its commit was approved, and so were the inputs. `job` ends with it.
    """
    spec = call.hive.spec(name)
    commit = spec.config or ""
    request = ApprovalRequest(
        ApprovalKind.UPDATE, spec.id, call.uuid, "", "", Binding(commit, base=commit), job
    )  # fmt: skip
    return _create_approved(call, request, "update")


def _create_approved(call: Call, request: ApprovalRequest, operation_: str) -> Approval:
    """A request of somebody who may decide it: approved as it is made."""
    approvals = call.ledger.approvals
    for each in approvals.of_agent(request.agent):
        if each.kind is request.kind and each.binding.commit == request.binding.commit:
            name = display_name(call, request.agent)
            raise Conflict(f"cannot {operation_} {name}: that is under way as {each.id}")
    found = approvals.create(request, call.now, call.now + call.settings.approvals.expires)
    by = f"uid:{call.uid}" if call.by_operator else call.uuid
    approvals.move(found.id, "check", call.now)
    return approvals.move(found.id, "approve", call.now, by=by)


def _rollback_target(call: Call, name: str, uuid: str, to: str | None) -> Generation:
    """The generation that is meant. One that failed is no way back."""
    generations = call.ledger.generations.all(uuid)
    current = call.ledger.generations.newest(uuid)
    if current is None:
        raise NotFound(f"cannot roll back {name}: it has no generations")
    if to is None:
        earlier = (each for each in generations if each.number < current.number)
        found = next((each for each in earlier if _differs(each, current)), None)
    elif len(to) <= _NUMBER_MOST:
        found = next((each for each in generations if each.number == int(to)), None)
    else:
        found = next((each for each in generations if each.approval == to), None)
    if found is None:
        raise NotFound(f"cannot roll back {name}: it has no such generation")
    if found.failed:
        raise InvalidArgument(f"generation {found.number} of {name} failed", field="to")
    if found.number == current.number:
        raise Conflict(f"cannot roll back {name}: it runs with generation {found.number}")
    return found


def _differs(each: Generation, current: Generation) -> bool:
    same = (each.commit, each.system) == (current.commit, current.system)
    return not each.failed and not same


def _page_start(call: Call, after: str | None) -> tuple[float, str, int] | None:
    if after is None:
        return None
    agent, _, number = after.partition(":")
    found = call.ledger.generations.get(agent, int(number))
    if found is None:
        raise InvalidArgument("is of no page", field="after")
    return found.at, found.agent, found.number


def _current_number(call: Call, agent: str) -> int:
    newest = call.ledger.generations.newest(agent)
    return newest.number if newest else 0


def _row(
    call: Call, each: Generation, current: int, origin: tuple[str, str] | None
) -> GenerationRow:
    kind, requester = origin or ("", "")
    return GenerationRow(
        agent=display_name(call, each.agent), number=each.number, current=each.number == current,
        commit=each.commit, approval=each.approval, kind=kind,
        requester=display_name(call, requester) if requester else "", at=each.at,
        system=each.system, failed=each.failed,
    )  # fmt: skip
