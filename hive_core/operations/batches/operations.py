"""Fan-out: many tasks in one call, done by several workers beside each other (row Q20).

The call answers at once with a batch. What is above the cap waits in the batch and is given out as
workers become free; `batch_work.py` does that.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Whose, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.ledger.batches.storage import NewBatch
from hive_core.model.agents.agent import Role
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.planning import Batch
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.dispatch import give_out, made, text_of
from hive_core.operations.batches.views import (
    BatchBegun,
    BatchReports,
    BatchRow,
    BatchRows,
    GetBatchParams,
    ListBatchesParams,
    RunParams,
    report,
)
from hive_core.operations.pages import fitting
from hive_core.operations.waits.operations import called_or_none
from hive_core.policy.decide import decide
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

_AROUND: Final = 64  # bytes for what stands between two reports
_IDLE: Final = "idle"


@operation(action="assign", allow=SELF)
def run_parallel_workers(
    call: Call, params: RunParams
) -> Change[BatchBegun] | Record[BatchBegun]:  # fmt: skip
    """Give out many tasks at once to several workers; answers at once with a batch.

    Workers are those that are named, or are made and destroyed again at the end. Above the cap the
    tasks wait and are given out by themselves. One message comes when all have ended; what has not
    at the timeout ends as `timeout`, with what there is of it.
    """
    _check(call, params)
    batch = _create(call, params)
    hive, topics = call.hive, frozenset[str]()
    wanted = min(batch.concurrency, len(params.tasks))
    for uuid in _existing(call, params, wanted):
        call.ledger.plans.batches.add_worker(batch.id, uuid, own=False)
        wanted -= 1
    if not params.agents:
        hive, topics = _make(call, batch, wanted)
    topics |= give_out(call._replace(hive=hive), batch)
    begun = _begun(call._replace(hive=hive), batch)
    audited = {"batch": batch.id, "tasks": len(params.tasks), "workers": begun.workers}
    topics |= {f"batch:{batch.id}"}
    if hive is call.hive:
        return Record(begun, topics, audited)
    return Change(begun, hive, f"workers for batch {batch.id}", topics, audited)


def _of_batch(call: Call, params: GetBatchParams) -> str | None:
    found = call.ledger.plans.batches.get(params.batch)
    return None if found is None else called_or_none(call, found.owner)


@operation(
    action="read", allow=SELF | ANCESTOR | OPERATOR, whose=Whose("batch", "batch", _of_batch)
)
def get_batch(call: Call, params: GetBatchParams) -> BatchReports:
    """Show what has come of a batch, each task in its place: one report, and one only."""
    batches = call.ledger.plans.batches
    batch = batches.require(params.batch)
    first = int(params.after) if params.after and params.after.isdecimal() else 0
    items = batches.items(batch.id)
    shown = (report(call, each) for each in items[first : first + params.most])
    fit = list(fitting(shown, lambda row: _AROUND + len(row.model_dump_json().encode())))
    after = first + len(fit)
    return BatchReports(
        batch=batch.id, title=batch.title, state=batch.state,
        worker_count=len(batches.workers(batch.id)), open=batches.count_open_items(batch.id),
        deadline=batch.deadline, reports=fit, next=str(after) if after < len(items) else None,
    )  # fmt: skip


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def list_batches(call: Call, params: ListBatchesParams) -> BatchRows:
    """List the batches of an agent, the newest first."""
    owner = call.uuid
    if params.agent is not None and params.agent != THE_OPERATOR:
        owner = call.hive.spec(params.agent).id
    batches = call.ledger.plans.batches
    rows = [
        BatchRow(
            batch=each.id, title=each.title, state=each.state, tasks=len(batches.items(each.id)),
            open=batches.count_open_items(each.id), created=each.created,
        )
        for each in batches.page(owner, params.limit)
    ]  # fmt: skip
    return BatchRows(batches=rows)


def _check(call: Call, params: RunParams) -> None:
    spec = call.hive.specs.get(call.caller)
    if spec is not None and spec.role is Role.WORKER:
        raise NotAllowed(f"cannot run workers: {call.caller} is a worker itself", rule="role")
    most = call.settings.waits.batches
    if len(call.ledger.plans.batches.running(call.uuid)) >= most:
        raise LimitReached(f"cannot run workers: {most} of your batches have not ended yet")
    for name in params.agents:
        decision = decide(ANCESTOR | OPERATOR, call.hive, call.caller, name)
        if not decision.allowed:
            cannot = f"cannot give work to {name}: {decision.reason}"
            raise NotAllowed(cannot, rule="ancestor") if decision.visible else NotFound(cannot)
        uuid = call.hive.spec(name).id
        if busy := call.ledger.plans.batches.running_batches_of_worker(uuid):
            raise Conflict(f"cannot give work to {name}: it works for batch {busy[0]}")
    if len(set(params.agents)) != len(params.agents):
        raise InvalidArgument("an agent is named twice", field="agents")


def _create(call: Call, params: RunParams) -> Batch:
    waits = call.settings.waits
    wanted = params.concurrency or len(params.agents) or waits.parallel
    if params.agents:
        wanted = min(wanted, len(params.agents))
    new = NewBatch(
        owner=call.uuid, title=params.title, concurrency=wanted, requeue=params.requeue,
        keeps=params.keep, deadline=call.now + (params.timeout or waits.batch),
        template={} if params.agents else params.spawn.model_dump(exclude_none=True),
    )  # fmt: skip
    texts = [(each.title, text_of(each)) for each in params.tasks]
    return call.ledger.plans.batches.create(new, texts, call.now)


def _existing(call: Call, params: RunParams, wanted: int) -> list[str]:
    """Named workers, or idle children that run what would be made."""
    if params.agents:
        return [call.hive.spec(name).id for name in params.agents[:wanted]]
    if not params.reuse or call.by_operator:
        return []
    children = (call.hive.spec(name) for name in call.hive.topology.children(call.caller))
    idle = [
        spec.id
        for spec in children
        if (spec.role, list(spec.command)) == (params.spawn.role, params.spawn.command)
        and call.states.activity(spec.id) == _IDLE
        and not call.ledger.tasks.open_tasks(spec.id, 1)
        and not call.ledger.plans.batches.running_batches_of_worker(spec.id)
    ]
    return idle[:wanted]


def _make(call: Call, batch: Batch, count: int) -> tuple[Hive, frozenset[str]]:
    """Workers for a batch, with the rights of who asked for it."""
    topics = frozenset[str]()
    for _ in range(count):
        change = made(call, batch)
        call, topics = call._replace(hive=change.hive), topics | change.wakes
    return call.hive, topics


def _begun(call: Call, batch: Batch) -> BatchBegun:
    batches = call.ledger.plans.batches
    workers = sorted(display_name(call, uuid) for uuid, _ in batches.workers(batch.id))
    return BatchBegun(
        batch=batch.id, worker_count=len(workers), workers=workers,
        tasks=[each.task for each in batches.items(batch.id)], deadline=batch.deadline,
    )  # fmt: skip
