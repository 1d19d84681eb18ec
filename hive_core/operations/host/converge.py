"""What the change road would do next, and what is left over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field

from hive_core.broker.call import Call, Later, Record, SlowReadSources
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.plan.desired import ReconcilePlan
from hive_core.policy.rules import OPERATOR


class DryRun(Mutation):
    dry_run: bool = Field(default=False, description="Only say what would be done.")


class ConvergenceStep(Result):
    agent: str = Field(description="The agent.")
    action: str = Field(description="What would be done.")
    reason: str = Field(description="Why.")


class Convergence(Result):
    steps: list[ConvergenceStep] = Field(description="In an order that works.")
    drift: list[str] = Field(description="What is not as it should be and is only reported.")


class LeftOver(Result):
    kind: str = Field(description="archive, range, secrets, unit, node or another word.")
    name: str = Field(description="Which one.")
    detail: str = Field(description="What is known of it.")


class LeftOvers(Result):
    items: list[LeftOver] = Field(description="What no agent accounts for any more.")


@operation(action="administer", allow=OPERATOR)
def converge(call: Call, params: DryRun) -> Record[Convergence] | Later[Convergence]:
    """Make the machine what the hive says, now; the daemon does so by itself all the time.

    With `dry_run` it only says what the next pass would do.
    """
    if not params.dry_run:
        return Record(_convergence(call.states.plan()), wakes=frozenset({"converge"}))

    async def read(reads: SlowReadSources) -> Convergence:
        return _convergence(await reads.fresh_plan())

    return Later(read)


def _convergence(plan: ReconcilePlan) -> Convergence:
    steps = [
        ConvergenceStep(agent=step.name, action=type(step.action).__name__, reason=step.why)
        for step in plan.steps
    ]
    return Convergence(steps=steps, drift=[stray.text for stray in plan.reports])


@operation(action="administer", allow=OPERATOR)
def gc(call: Call, params: DryRun) -> Record[LeftOvers] | Later[LeftOvers]:
    """Remove what no agent accounts for any more: archives past their time, uid ranges, machines.

    With a machine go its mounts, its copied root and its socket; with an agent that will not come
    back its secrets and generations. Nodes and archives that nobody
    knows are listed and left to the operator, for agents wrote what is in them; so are units that
    hive did not make.
    """
    known = [*_archives(call), *_ranges(call), *_agent_left_overs(call)]
    if not params.dry_run:
        _drop_agent_left_overs(call)
        found = LeftOvers(items=[*known, *_orphans(call.states.plan())])
        return Record(found, wakes=frozenset({"converge", "gc"}))

    async def read(reads: SlowReadSources) -> LeftOvers:
        return LeftOvers(items=[*known, *_orphans(await reads.fresh_plan())])

    return Later(read)


def _archives(call: Call) -> Iterator[LeftOver]:
    for each in call.ledger.archives.past_retention(call.now):
        yield LeftOver(kind="archive", name=each.uuid, detail=f"{each.name}, its time is over")


def _ranges(call: Call) -> Iterator[LeftOver]:
    kept = {each.uuid for each in call.ledger.archives.all()}
    for uuid, base in call.ledger.ranges.all().items():
        if uuid not in kept and call.hive.name(uuid) is None:
            yield LeftOver(kind="range", name=uuid, detail=f"from uid {base}")


def _unowned(call: Call, uuids: Iterable[str]) -> list[str]:
    """Those of them who neither live nor may be restored."""
    archived = {each.uuid for each in call.ledger.archives.all()}
    return sorted({*uuids} - archived - call.hive.names.keys())


def _secret_owners(call: Call) -> set[str]:
    """Who has secrets, but for webhooks, which triggers account for."""
    return {*call.vault.holders()} - call.ledger.triggers.hooks()


def _agent_left_overs(call: Call) -> Iterator[LeftOver]:
    """What is kept for agents beside their files."""
    for uuid in _unowned(call, _secret_owners(call)):
        keys = ", ".join(call.vault.keys(uuid))
        yield LeftOver(kind="secrets", name=uuid, detail=f"nobody's any more: {keys}")
    for uuid in _unowned(call, call.ledger.generations.agents()):
        yield LeftOver(kind="generations", name=uuid, detail="nobody's any more")


def _drop_agent_left_overs(call: Call) -> None:
    for uuid in _unowned(call, _secret_owners(call)):
        call.vault.drop(uuid)
    for uuid in _unowned(call, call.ledger.generations.agents()):
        call.ledger.generations.drop(uuid)


def _orphans(plan: ReconcilePlan) -> Iterator[LeftOver]:
    for stray in plan.reports:
        if stray.kind not in ("spec", "property"):
            yield LeftOver(kind=stray.kind, name=stray.name, detail=stray.detail)
