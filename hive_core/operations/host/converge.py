"""The next steps of the change path, and left-overs on the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import Field

from hive_core.broker.call import Call, Later, Record, SlowReadSources
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.plan.desired import ReconcilePlan
from hive_core.policy.rules import OPERATOR


class DryRun(Mutation):
    dry_run: bool = Field(default=False, description="Only report what would be done.")


class ConvergenceStep(Result):
    agent: str = Field(description="The agent.")
    action: str = Field(description="The action.")
    reason: str = Field(description="The reason.")


class Convergence(Result):
    steps: list[ConvergenceStep] = Field(description="The next steps, in a valid order.")
    drift: list[str] = Field(description="Differences that the daemon only reports.")


class LeftOver(Result):
    kind: str = Field(description="archive, range, secrets, unit, node or another word.")
    name: str = Field(description="Its name.")
    detail: str = Field(description="Details.")


class LeftOvers(Result):
    items: list[LeftOver] = Field(
        description="Left-overs: units and files that belong to no agent."
    )


@operation(action="administer", allow=OPERATOR)
def converge(call: Call, params: DryRun) -> Record[Convergence] | Later[Convergence]:
    """Reconcile the machine with the hive now; the daemon also does so continuously.

    With `dry_run` it only reports what the next pass would do.
    """
    if not params.dry_run:
        call.notify("converge")
        return Record(_convergence(call.states.plan()))

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
    """Remove left-overs: expired archives, and uid ranges and machines of no agent.

    The mounts, the copied root and the socket of a machine are removed with it; the secrets and
    generations of an agent are removed when it can no longer be restored. Unknown nodes, unknown
    archives and units that hive did not create are only listed: the operator decides, since agents
    may have written their contents.
    """
    known = [*_archives(call), *_ranges(call), *_agent_left_overs(call)]
    if not params.dry_run:
        _drop_agent_left_overs(call)
        left_overs = LeftOvers(items=[*known, *_orphans(call.states.plan())])
        call.notify("converge", "gc")
        return Record(left_overs)

    async def read(reads: SlowReadSources) -> LeftOvers:
        return LeftOvers(items=[*known, *_orphans(await reads.fresh_plan())])

    return Later(read)


def _archives(call: Call) -> Iterator[LeftOver]:
    for archive in call.ledger.archives.past_retention(call.now):
        yield LeftOver(kind="archive", name=archive.uuid, detail=f"{archive.name}, expired")


def _ranges(call: Call) -> Iterator[LeftOver]:
    archived = {archive.uuid for archive in call.ledger.archives.all()}
    for uuid, base in call.ledger.ranges.all().items():
        if uuid not in archived and call.hive.name(uuid) is None:
            yield LeftOver(kind="range", name=uuid, detail=f"from uid {base}")


def _without_owner(call: Call, uuids: Iterable[str]) -> list[str]:
    """UUIDs of agents that neither live nor can be restored."""
    archived = {archive.uuid for archive in call.ledger.archives.all()}
    return sorted({*uuids} - archived - call.hive.names.keys())


def _secret_owners(call: Call) -> set[str]:
    """Owners of secrets, except of those of webhooks, which belong to triggers."""
    return {*call.vault.holders()} - call.ledger.triggers.hooks()


def _agent_left_overs(call: Call) -> Iterator[LeftOver]:
    """What is stored for agents beside their files."""
    for uuid in _without_owner(call, _secret_owners(call)):
        keys = ", ".join(call.vault.keys(uuid))
        yield LeftOver(kind="secrets", name=uuid, detail=f"of no agent: {keys}")
    for uuid in _without_owner(call, call.ledger.generations.agents()):
        yield LeftOver(kind="generations", name=uuid, detail="of no agent")


def _drop_agent_left_overs(call: Call) -> None:
    for uuid in _without_owner(call, _secret_owners(call)):
        call.vault.drop(uuid)
    for uuid in _without_owner(call, call.ledger.generations.agents()):
        call.ledger.generations.drop(uuid)


def _orphans(plan: ReconcilePlan) -> Iterator[LeftOver]:
    for stray in plan.reports:
        if stray.kind not in ("spec", "property"):
            yield LeftOver(kind=stray.kind, name=stray.name, detail=stray.detail)
