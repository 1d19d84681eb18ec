"""The progress of batches: assign tasks to free workers, replace lost workers, report the end.

The daemon does all of it on behalf of the owner of the batch, with the rights that the owner has at
that time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import AgentDestroyed, BatchEnded, TaskEnded, emit, on
from hive_core.broker.operation import REGISTRY, Result
from hive_core.broker.timers import due
from hive_core.errors import HiveError, LimitReached
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.posting import one_line
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.work.planning import Batch, BatchItem, BatchState, ItemState
from hive_core.model.work.task import ResultStatus, TaskRequest
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.views import FanTask
from hive_core.operations.notices import send_notice
from hive_core.operations.tasks.assign import create_task
from hive_core.operations.tasks.funds import budget_amounts
from hive_core.operations.tasks.rules import living_name
from hive_core.operations.tasks.transitions import stop_task
from hive_core.policy.decide import decide

BATCH_DONE: Final = "batch_done"
RETENTION: Final = 7 * 86_400.0  # seconds for which ended batches and waits are kept
TIMEOUT: Final = "timeout"
SOFT: Final = 0.8  # part of the time after which a report is requested
_RETRY: Final = 2.0  # seconds until a task that had no room is tried again
_AT_ONCE: Final = 8  # workers that are destroyed in one turn
_SUMMARY: Final = 200
_LINES: Final = 64
_DOWN: Final = frozenset({State.FAILED, State.PARKED})


def item_body(task: FanTask, hops: int) -> str:
    """The text, the data, the budget and the hops of one task, as the batch keeps them."""
    body: dict[str, object] = {
        "task": task.task, "data": task.data, "budget": budget_amounts(task.budget),
    }  # fmt: skip
    if hops:
        body["hops"] = hops
    return json.dumps(body)


def assign_items(call: Call, batch: Batch) -> None:
    """Assign the next task to each free worker of a batch.

    LimitReached when the first task cannot be assigned. A later task that cannot be assigned is
    tried again after some seconds.
    """
    batches = call.ledger.plans.batches
    queued = batches.items(batch.id, ItemState.QUEUED)
    retry_at: float | None = None
    workers = _free_workers(call, batch)[: _free_slots(call, batch)]
    for uuid, item in zip(workers, queued, strict=False):
        try:
            with call.ledger.savepoint():
                _assign_item(call, batch, uuid, item)
        except LimitReached:
            if item is queued[0]:
                raise
            retry_at = call.now + _RETRY
            break
    batches.schedule(batch.id, retry_at)


def _assign_item(call: Call, batch: Batch, uuid: str, item: BatchItem) -> None:
    _ensure_running(call, batch, uuid)
    request = _item_request(call, batch, item)
    task = create_task(call, batch.owner, display_name(call, uuid), request)
    call.ledger.plans.batches.assign_item(item, task.id, uuid)


def _ensure_running(call: Call, batch: Batch, uuid: str) -> None:
    """Start a named worker that is down, on behalf of the owner."""
    run = call.ledger.runs.get(uuid)
    up = run is not None and run.wanted is DesiredState.RUNNING
    if up and call.states.state(uuid) not in _DOWN:
        return
    call_as(call, batch.owner, "start", {"agent": display_name(call, uuid)})


def _item_request(call: Call, batch: Batch, item: BatchItem) -> TaskRequest:
    body = json.loads(item.body)
    left = max(1.0, batch.deadline - call.now)
    return TaskRequest(
        description=body["task"], data=body["data"], title=item.title, requeue=batch.requeue,
        soft=left * SOFT, deadline=left, batch=batch.id, budget=body.get("budget", {}),
        hops=body.get("hops", 0),
    )  # fmt: skip


def make_worker(call: Call, batch: Batch) -> Change[Result]:
    """Create one more worker on behalf of the owner, and add it to the batch."""
    batches = call.ledger.plans.batches
    name = f"w-{batch.id[:8]}-{batches.next_worker_number(batch.id)}"
    params: dict[str, Any] = {**batches.template(batch.id), "name": name}
    change = call_as(call, batch.owner, "spawn", params)
    if not isinstance(change, Change):
        raise TypeError("a spawn is a change")
    batches.add_worker(batch.id, change.hive.spec(name).id, own=True)
    return change


def wind_up(
    call: Call, batch: Batch, status: ResultStatus, why: str, grace: float | None = None
) -> None:
    """Stop assigning tasks of a batch and stop those that run.

    The batch ends when they have ended.
    """
    batches = call.ledger.plans.batches
    reason = f"{status.value}: {why}"
    batches.set_reason(batch.id, reason)
    for item in batches.items(batch.id, ItemState.QUEUED):
        batches.end_item(item, reason)
    call.notify(f"batch:{batch.id}")
    batches.schedule(batch.id, call.now)
    for item in batches.items(batch.id, ItemState.GIVEN):
        task = call.ledger.tasks.get(item.task)
        if _is_out_of_reach(call, batch, item.worker):  # the owner may no longer stop its task
            batches.end_item(item, reason)
        elif task is not None and task.open:
            stop_task(call, task, status, why, grace)


@on(TaskEnded)
def end_item_of_task(call: Call, event: TaskEnded) -> None:
    """End the item of a batch with its task: its worker is free."""
    batches = call.ledger.plans.batches
    item = batches.item_of(event.id)
    if item is None or item.state is not ItemState.GIVEN:
        return
    batches.end_item(item)
    batches.schedule(item.batch, call.now)
    call.notify(f"batch:{item.batch}")


@on(AgentDestroyed)
def stop_batches_of_destroyed_owner(call: Call, event: AgentDestroyed) -> None:
    """Stop the batches of a destroyed agent."""
    for batch in call.ledger.plans.batches.running(event.uuid):
        wind_up(call, batch, ResultStatus.STOPPED, f"{event.name} is gone")


@due(at=lambda ledger: ledger.plans.batches.next_deadline(), topics=frozenset({"batch"}))
def time_out_batch(call: Call) -> Record[Result]:
    """End a batch at its deadline: open items end as `timeout`, with their partial results."""
    if batch := call.ledger.plans.batches.overdue(call.now):
        wind_up(call, batch, ResultStatus.TIMEOUT, "the batch's time is over")
    return Record(Result())


@due(at=lambda ledger: ledger.plans.batches.next_due(), topics=frozenset({"batch"}))
def advance_due_batch(call: Call) -> Record[Result] | Change[Result]:
    """Advance a batch.

    A worker is free, or the batch has ended and its workers are to be destroyed.
    """
    batch = call.ledger.plans.batches.due(call.now)
    if batch is None:
        return Record(Result())
    hive = call.hive
    try:
        with call.ledger.savepoint():
            hive = _advance(call, batch)
    except HiveError as error:
        _retry_or_fail(call, batch, error)
    if hive is call.hive:
        return Record(Result())
    return Change(Result(), hive, f"workers of batch {batch.id}")


def _oldest_due(ledger: Ledger) -> float | None:
    at = ledger.plans.oldest_end()
    return None if at is None else at + RETENTION


@due(at=_oldest_due, topics=frozenset({"batch", "wait"}))
def prune_batches_and_waits(call: Call) -> Record[Result]:
    """Delete the waits and batches that ended a week ago."""
    call.ledger.plans.prune(call.now - RETENTION + 1)
    return Record(Result())


def _advance(call: Call, batch: Batch) -> Hive:
    """Take a batch a step further.

    Return the hive with the workers that were created or destroyed.
    """
    batches = call.ledger.plans.batches
    if batch.state is BatchState.RUNNING and batches.count_open_items(batch.id):
        call = _replace_workers(call, batch)
        assign_items(call, batch)
        _fail_without_workers(call, batch)
        return call.hive
    call.notify(f"batch:{batch.id}")
    if batch.state is BatchState.RUNNING:
        batch = batches.move(batch.id, _end_event(batch), call.now)
        _tell_owner(call, batch)
        emit(call, BatchEnded(batch.id, batch.owner, batch.state.value))
    call, has_more = _dismiss_workers(call, batch)
    batches.schedule(batch.id, call.now if has_more else None)
    return call.hive


def _end_event(batch: Batch) -> str:
    word = batch.reason.partition(":")[0]
    return {TIMEOUT: "expire", ResultStatus.STOPPED: "stop"}.get(word, "end")


def _retry_or_fail(call: Call, batch: Batch, error: HiveError) -> None:
    """Retry later what cannot be done now; fail the batch when its owner may no longer do it."""
    batches = call.ledger.plans.batches
    is_running = batch.state is BatchState.RUNNING
    if error.exit_code == 75 or not is_running:  # noqa: PLR2004 - try again
        batches.schedule(batch.id, call.now + _RETRY if is_running else None)
        return
    wind_up(call, batch, ResultStatus.FAILED, str(error))


def _replace_workers(call: Call, batch: Batch) -> Call:
    """Destroy lost workers that the batch created, and create others while work is left."""
    batches = call.ledger.plans.batches
    busy = {item.worker for item in batches.items(batch.id, ItemState.GIVEN)}
    for uuid, own in batches.workers(batch.id):
        if uuid in busy or not _is_lost(call, batch, uuid, own=own):
            continue
        batches.remove_worker(batch.id, uuid)
        if own:
            call = _destroy_worker(call, batch, uuid)
    if not batches.template(batch.id):
        return call
    for _ in range(_free_slots(call, batch) - len(_free_workers(call, batch))):
        call = replace(call, hive=make_worker(call, batch).hive)
    return call


def _fail_without_workers(call: Call, batch: Batch) -> None:
    """Fail the rest of a batch whose named workers are all destroyed or out of reach."""
    batches = call.ledger.plans.batches
    if not batches.workers(batch.id) and not batches.template(batch.id):
        wind_up(call, batch, ResultStatus.FAILED, "its workers are gone")


def _dismiss_workers(call: Call, batch: Batch) -> tuple[Call, bool]:
    """Destroy some of the workers that an ended batch created; return whether more are left.

    Workers stay when the batch keeps them.
    """
    batches = call.ledger.plans.batches
    own = () if batch.keeps else [uuid for uuid, own in batches.workers(batch.id) if own]
    living = [uuid for uuid in own if call.hive.name(uuid) is not None]
    for uuid in living[:_AT_ONCE]:
        call = _destroy_worker(call, batch, uuid)
        if call.hive.name(uuid) is not None:  # the owner may no longer destroy it
            batches.remove_worker(batch.id, uuid)
    return call, len(living) > _AT_ONCE


def _destroy_worker(call: Call, batch: Batch, uuid: str) -> Call:
    """Destroy a worker on behalf of the owner.

    The worker stays when the policy refuses: the owner is destroyed, or no longer above the worker.
    """
    name = call.hive.name(uuid)
    if name is None:
        return call
    try:
        change = call_as(call, batch.owner, "destroy", {"agent": name, "recursive": True})
    except HiveError:
        return call
    if not isinstance(change, Change):
        raise TypeError("the end of an agent is a change")
    return replace(call, hive=change.hive)


def _tell_owner(call: Call, batch: Batch) -> None:
    """Send the owner one message when all tasks have ended, with a line for each."""
    name = living_name(call, batch.owner)
    if name is None:
        return
    items = call.ledger.plans.batches.items(batch.id)
    ends = [_item_end(call, item) for item in items]
    statuses = [status for status, _ in ends]
    counts = {status: statuses.count(status) for status in statuses}
    head = json.dumps({"batch": batch.id, "state": batch.state, "counts": counts})
    lines = [f"{at}. {status}: {summary}" for at, (status, summary) in enumerate(ends)][:_LINES]
    title = f" ({one_line(batch.title)})" if batch.title else ""
    text = f"Batch {batch.id}{title} is over; get_batch shows all of it."
    send_notice(call, call.hive, name, BATCH_DONE, "\n".join([head, text, *lines]))


def _item_end(call: Call, item: BatchItem) -> tuple[str, str]:
    """The status of an item that has ended, and its summary or reason."""
    task = call.ledger.tasks.get(item.task) if item.task else None
    if task is None or task.result is None:
        status, _, why = item.reason.partition(": ")
        return status or ResultStatus.FAILED.value, why
    summary = one_line(task.result.summary or task.result.error)
    return task.result.status.value, summary[:_SUMMARY]


# The workers of a batch.


def _is_out_of_reach(call: Call, batch: Batch, uuid: str) -> bool:
    """Whether a worker was moved to where the owner of its batch may not assign it tasks."""
    owner, name = living_name(call, batch.owner), call.hive.name(uuid)
    if owner is None or name is None:
        return False
    return not decide(REGISTRY["assign_task"].allow, call.hive, owner, name).allowed


def _can_work(call: Call, batch: Batch, uuid: str) -> bool:
    return call.hive.name(uuid) is not None and not _is_out_of_reach(call, batch, uuid)


def _free_workers(call: Call, batch: Batch) -> list[str]:
    batches = call.ledger.plans.batches
    busy = {item.worker for item in batches.items(batch.id, ItemState.GIVEN)}
    workers = (uuid for uuid, _ in batches.workers(batch.id))
    return [uuid for uuid in workers if uuid not in busy and _can_work(call, batch, uuid)]


def _free_slots(call: Call, batch: Batch) -> int:
    """How many more tasks can be assigned now."""
    batches = call.ledger.plans.batches
    assigned = len(batches.items(batch.id, ItemState.GIVEN))
    return min(batch.concurrency - assigned, batches.count_open_items(batch.id) - assigned)


def _is_lost(call: Call, batch: Batch, uuid: str, *, own: bool) -> bool:
    """Whether a worker is destroyed, out of reach, or created by the batch and not running."""
    if not _can_work(call, batch, uuid):
        return True
    run = call.ledger.runs.get(uuid)
    up = run is not None and run.wanted is DesiredState.RUNNING
    return own and (not up or call.states.state(uuid) in _DOWN)
