"""Fan-out: one call assigns many tasks to several workers in parallel (row Q20).

The call replies at once with a batch. The batch keeps the tasks above its concurrency, and assigns
them as workers become free (dispatch.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.operation import Whose, operation
from hive_core.errors import Conflict, InvalidArgument, LimitReached, NotAllowed, NotFound
from hive_core.ledger.batches.storage import NewBatch
from hive_core.model.agents.agent import SESSION, Role
from hive_core.model.agents.hive import Hive
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.planning import Batch
from hive_core.operations.agents.spawn import inherited_runtime
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.dispatch import assign_items, item_body, make_worker
from hive_core.operations.batches.views import (
    BatchBegun,
    BatchReports,
    BatchRow,
    BatchRows,
    GetBatchParams,
    ListBatchesParams,
    RunParams,
    Template,
    batch_report,
)
from hive_core.operations.mail.hops import next_hops
from hive_core.operations.pages import take_fitting
from hive_core.operations.phases.work import note_work
from hive_core.operations.tasks.rules import living_name
from hive_core.policy.decide import decide
from hive_core.policy.rules import ANCESTOR, OPERATOR, SELF

_SEPARATOR: Final = 64  # bytes between two reports
_IDLE: Final = "idle"


@operation(action="assign", allow=SELF)
def run_parallel_workers(
    call: Call, params: RunParams
) -> Change[BatchBegun] | Record[BatchBegun]:  # fmt: skip
    """Assign many tasks to several workers in parallel; replies at once with a batch.

    The workers are the named agents. Without names the daemon creates workers, and destroys them at
    the end. Tasks above `concurrency` wait until a worker is free. The caller gets one message when
    all tasks have ended. A task that has not ended at the timeout ends as `timeout`, with its
    partial result.
    """
    _check(call, params)
    batch = _create(call, params)
    hive = call.hive
    wanted = min(batch.concurrency, len(params.tasks))
    for uuid in _existing_workers(call, params, wanted):
        call.ledger.plans.batches.add_worker(batch.id, uuid, own=False)
        wanted -= 1
    if not params.agents:
        hive = _make_workers(call, batch, wanted)
    assign_items(replace(call, hive=hive), batch)
    result = _batch_begun(replace(call, hive=hive), batch)
    fields = {"batch": batch.id, "tasks": len(params.tasks), "workers": result.workers}
    note_work(call, call.uuid, batch.id, batch.title)
    call.notify(f"batch:{batch.id}")
    if hive is call.hive:
        return Record(result, fields=fields)
    return Change(result, hive, f"workers for batch {batch.id}", fields=fields)


def _owner(call: Call, params: GetBatchParams) -> str | None:
    batch = call.ledger.plans.batches.get(params.batch)
    return None if batch is None else living_name(call, batch.owner)


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, whose=Whose("batch", "batch", _owner))
def get_batch(call: Call, params: GetBatchParams) -> BatchReports:
    """Show the reports of a batch: exactly one for each task, in the order of the tasks."""
    batches = call.ledger.plans.batches
    batch = batches.require(params.batch)
    first = int(params.after) if params.after and params.after.isdecimal() else 0
    items = batches.items(batch.id)
    page = (batch_report(call, item) for item in items[first : first + params.most])
    reports = list(take_fitting(page, lambda row: _SEPARATOR + len(row.model_dump_json().encode())))
    after = first + len(reports)
    return BatchReports(
        batch=batch.id, title=batch.title, state=batch.state,
        worker_count=len(batches.workers(batch.id)), open=batches.count_open_items(batch.id),
        deadline=batch.deadline, reports=reports, next=str(after) if after < len(items) else None,
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
            batch=batch.id, title=batch.title, state=batch.state,
            tasks=len(batches.items(batch.id)), open=batches.count_open_items(batch.id),
            created=batch.created,
        )
        for batch in batches.page(owner, params.limit)
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
        template={} if params.agents else _worker_params(call, params.spawn),
    )  # fmt: skip
    hops = next_hops(call, "run workers", params.in_turn_of)
    texts = [(task.title, item_body(task, hops)) for task in params.tasks]
    return call.ledger.plans.batches.create(new, texts, call.now)


def _worker_params(call: Call, template: Template) -> dict[str, object]:
    """The parameters of `spawn` for the new workers of a batch."""
    fields = template.model_dump(exclude_none=True)
    runtime = template.runtime or inherited_runtime(call, template.model_fields_set)
    if runtime is None:
        return fields
    if "command" not in template.model_fields_set:
        fields["command"] = []
    return {**fields, "runtime": runtime}


def _existing_workers(call: Call, params: RunParams, wanted: int) -> list[str]:
    """The named workers, or idle children that run the same command as new workers would."""
    if params.agents:
        return [call.hive.spec(name).id for name in params.agents[:wanted]]
    if not params.reuse or call.by_operator:
        return []
    program = _worker_params(call, params.spawn)["command"] or list(SESSION)
    children = (call.hive.spec(name) for name in call.hive.topology.children(call.caller))
    idle = [
        spec.id
        for spec in children
        if (spec.role, list(spec.program)) == (params.spawn.role, program)
        and call.states.activity(spec.id) == _IDLE
        and not call.ledger.tasks.open_tasks(spec.id, 1)
        and not call.ledger.plans.batches.running_batches_of_worker(spec.id)
    ]
    return idle[:wanted]


def _make_workers(call: Call, batch: Batch, count: int) -> Hive:
    """Create workers for a batch, with the rights of the caller; return the hive with them."""
    for _ in range(count):
        call = replace(call, hive=make_worker(call, batch).hive)
    return call.hive


def _batch_begun(call: Call, batch: Batch) -> BatchBegun:
    batches = call.ledger.plans.batches
    workers = sorted(display_name(call, uuid) for uuid, _ in batches.workers(batch.id))
    return BatchBegun(
        batch=batch.id, worker_count=len(workers), workers=workers,
        tasks=[item.task for item in batches.items(batch.id)], deadline=batch.deadline,
    )  # fmt: skip
