"""What goes on in a batch: tasks are given out as workers become free, lost ones are replaced.

All of it is done on behalf of who asked for the batch, with its rights as they are then.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hive_core.broker.call import Call, Change, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.hooks import AgentDestroyed, TaskEnded, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.errors import HiveError, LimitReached
from hive_core.ledger.core.ledger import Ledger
from hive_core.ledger.mail.posting import one_line
from hive_core.model.agents.machine import DesiredState
from hive_core.model.work.planning import Batch, BatchItem, BatchState, ItemState
from hive_core.model.work.task import ResultStatus, TaskRequest
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.views import FanTask
from hive_core.operations.batches.workers import DOWN, free, lost, moved_away, room
from hive_core.operations.notices import tell
from hive_core.operations.tasks.assign import assign
from hive_core.operations.tasks.funds import words_of
from hive_core.operations.tasks.transitions import stop
from hive_core.operations.waits.operations import called_or_none

BATCH_DONE: Final = "batch_done"
KEPT: Final = 7 * 86_400.0
TIMEOUT: Final = "timeout"
SOFT: Final = 0.8  # of the time: then a report is asked for
_AGAIN: Final = 2.0  # seconds until something that had no room is tried again
_AT_ONCE: Final = 8  # workers that are dismissed in one turn
_SAID: Final = 200
_LINES: Final = 64


def text_of(task: FanTask) -> str:
    """What is kept of one task: its text always, its data and its budget beside it."""
    return json.dumps({"task": task.task, "data": task.data, "budget": words_of(task.budget)})


def give_out(call: Call, batch: Batch) -> frozenset[str]:
    """Give each free worker of a batch the next task; topics to touch.

    What has been given stays so where there is not enough for the next one: that is tried again.
    LimitReached when there is not enough for the first.
    """
    batches = call.ledger.plans.batches
    queued = batches.items(batch.id, ItemState.QUEUED)
    topics = frozenset[str]()
    again: float | None = None
    workers = free(call, batch)[: room(call, batch)]
    for uuid, item in zip(workers, queued, strict=False):
        try:
            with call.ledger.savepoint():
                topics |= _given(call, batch, uuid, item)
        except LimitReached:
            if item is queued[0]:
                raise
            again = call.now + _AGAIN
            break
    batches.schedule(batch.id, again)
    return topics


def _given(call: Call, batch: Batch, uuid: str, item: BatchItem) -> frozenset[str]:
    topics = _up(call, batch, uuid)
    task, more = assign(call, batch.owner, display_name(call, uuid), _wish(call, batch, item))
    call.ledger.plans.batches.assign_item(item, task.id, uuid)
    return topics | more


def made(call: Call, batch: Batch) -> Change[Result]:
    """One more worker, which its owner could make itself; it joins."""
    batches = call.ledger.plans.batches
    name = f"w-{batch.id[:8]}-{batches.next_worker_number(batch.id)}"
    wanted: dict[str, Any] = {**batches.template(batch.id), "name": name}
    change = call_as(call, batch.owner, "spawn", wanted)
    if not isinstance(change, Change):
        raise TypeError("a spawn is a change")
    batches.add_worker(batch.id, change.hive.spec(name).id, own=True)
    return change


def wind_up(
    call: Call, batch: Batch, status: ResultStatus, why: str, grace: float | None = None
) -> frozenset[str]:
    """Begin nothing more of it, and end what runs; it ends when all of that has ended."""
    batches = call.ledger.plans.batches
    batches.set_reason(batch.id, f"{status.value}: {why}")
    for item in batches.items(batch.id, ItemState.QUEUED):
        batches.end_item(item, f"{status.value}: {why}")
    topics = frozenset({f"batch:{batch.id}"})
    batches.schedule(batch.id, call.now)
    for item in batches.items(batch.id, ItemState.GIVEN):
        task = call.ledger.tasks.get(item.task)
        if moved_away(call, batch, item.worker):  # what it does is another's to end
            batches.end_item(item, f"{status.value}: {why}")
        elif task is not None and task.open:
            topics |= stop(call, task, status, why, grace)[1]
    return topics


@when(TaskEnded)
def item_ended(call: Call, what: TaskEnded) -> frozenset[str]:
    """A task of a batch is over: its worker is free."""
    batches = call.ledger.plans.batches
    item = batches.item_of(what.id)
    if item is None or item.state is not ItemState.GIVEN:
        return frozenset()
    batches.end_item(item)
    batches.schedule(item.batch, call.now)
    return frozenset({f"batch:{item.batch}"})


@when(AgentDestroyed)
def owner_gone(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """Nobody is there for whom the rest would be done."""
    topics = frozenset[str]()
    for batch in call.ledger.plans.batches.running(what.uuid):
        topics |= wind_up(call, batch, ResultStatus.STOPPED, f"{what.name} is gone")
    return topics


@due(at=lambda ledger: ledger.plans.batches.next_deadline(), topics=frozenset({"batch"}))
def batch_deadlines(call: Call) -> Record[Result]:
    """A batch whose time is over: the rest of it ends as `timeout`, with what there is."""
    batch = call.ledger.plans.batches.overdue(call.now)
    if batch is None:
        return Record(Result())
    return Record(Result(), wind_up(call, batch, ResultStatus.TIMEOUT, "the batch's time is over"))


@due(at=lambda ledger: ledger.plans.batches.next_due(), topics=frozenset({"batch"}))
def batches_go_on(call: Call) -> Record[Result] | Change[Result]:
    """Something happened to a batch: a worker is free, or it has ended and is tidied up."""
    batch = call.ledger.plans.batches.due(call.now)
    if batch is None:
        return Record(Result())
    before = call
    try:
        with call.ledger.savepoint():
            call, topics = _go_on(call, batch)
    except HiveError as error:
        call, topics = before, _stuck(before, batch, error)
    if call.hive is before.hive:
        return Record(Result(), topics)
    return Change(Result(), call.hive, f"workers of batch {batch.id}", topics)


def _oldest(ledger: Ledger) -> float | None:
    at = ledger.plans.oldest_end()
    return None if at is None else at + KEPT


@due(at=_oldest, topics=frozenset({"batch", "wait"}))
def ended_waits_go(call: Call) -> Record[Result]:
    """Waits and batches that ended a week ago are forgotten."""
    call.ledger.plans.prune(call.now - KEPT + 1)
    return Record(Result())


def _go_on(call: Call, batch: Batch) -> tuple[Call, frozenset[str]]:
    batches = call.ledger.plans.batches
    if batch.state is BatchState.RUNNING and batches.count_open_items(batch.id):
        call, topics = _staffed(call, batch)
        topics |= give_out(call, batch)
        return call, topics | _nobody(call, batch)
    topics = frozenset({f"batch:{batch.id}"})
    if batch.state is BatchState.RUNNING:
        batch = batches.move(batch.id, _event(batch), call.now)
        topics |= _tell_owner(call, batch)
    call, more, rest = _dismissed(call, batch)
    batches.schedule(batch.id, call.now if rest else None)
    return call, topics | more


def _event(batch: Batch) -> str:
    word = batch.reason.partition(":")[0]
    return {TIMEOUT: "expire", ResultStatus.STOPPED: "stop"}.get(word, "end")


def _stuck(call: Call, batch: Batch, error: HiveError) -> frozenset[str]:
    """What cannot be done now is tried again; what its owner may not do any more ends it."""
    batches = call.ledger.plans.batches
    if error.exit_code == 75 or batch.state is not BatchState.RUNNING:  # noqa: PLR2004 - try again
        batches.schedule(batch.id, call.now + _AGAIN if batch.state is BatchState.RUNNING else None)
        return frozenset()
    return wind_up(call, batch, ResultStatus.FAILED, str(error))


def _staffed(call: Call, batch: Batch) -> tuple[Call, frozenset[str]]:
    """Lost workers that were made for it are taken away, and others made where work is left."""
    batches = call.ledger.plans.batches
    topics = frozenset[str]()
    busy = {each.worker for each in batches.items(batch.id, ItemState.GIVEN)}
    for uuid, own in batches.workers(batch.id):
        if uuid in busy or not lost(call, batch, uuid, own=own):
            continue
        batches.remove_worker(batch.id, uuid)
        if own:
            call, more = _destroyed(call, batch, uuid)
            topics |= more
    if not batches.template(batch.id):
        return call, topics
    for _ in range(room(call, batch) - len(free(call, batch))):
        change = made(call, batch)
        call, topics = call._replace(hive=change.hive), topics | change.wakes
    return call, topics


def _nobody(call: Call, batch: Batch) -> frozenset[str]:
    """All named workers are gone: the rest cannot be done."""
    batches = call.ledger.plans.batches
    if batches.workers(batch.id) or batches.template(batch.id):
        return frozenset()
    return wind_up(call, batch, ResultStatus.FAILED, "its workers are gone")


def _up(call: Call, batch: Batch, uuid: str) -> frozenset[str]:
    """A named worker that is down is started, as its owner could do it."""
    run = call.ledger.runs.get(uuid)
    if (
        run is not None
        and run.wanted is DesiredState.RUNNING
        and call.states.state(uuid) not in DOWN
    ):
        return frozenset()
    started = call_as(call, batch.owner, "start", {"agent": display_name(call, uuid)})
    return started.wakes if isinstance(started, Record) else frozenset()


def _wish(call: Call, batch: Batch, item: BatchItem) -> TaskRequest:
    kept = json.loads(item.body)
    left = max(1.0, batch.deadline - call.now)
    return TaskRequest(
        description=kept["task"], data=kept["data"], title=item.title, requeue=batch.requeue,
        soft=left * SOFT, deadline=left, batch=batch.id, budget=kept.get("budget", {}),
    )  # fmt: skip


def _dismissed(call: Call, batch: Batch) -> tuple[Call, frozenset[str], bool]:
    """Workers that were made for it go with it, unless they were to stay: some of them at once.

    The last says whether there are more.
    """
    batches = call.ledger.plans.batches
    own = () if batch.keeps else [uuid for uuid, own in batches.workers(batch.id) if own]
    there = [uuid for uuid in own if call.hive.name(uuid) is not None]
    topics = frozenset({f"batch:{batch.id}"})
    for uuid in there[:_AT_ONCE]:
        call, more = _destroyed(call, batch, uuid)
        topics |= more
        if call.hive.name(uuid) is not None:  # it is not its owner's any more
            batches.remove_worker(batch.id, uuid)
    return call, topics, len(there) > _AT_ONCE


def _destroyed(call: Call, batch: Batch, uuid: str) -> tuple[Call, frozenset[str]]:
    """Refused (its owner is gone, or it hangs elsewhere now): it stays, as any other agent."""
    name = call.hive.name(uuid)
    if name is None:
        return call, frozenset()
    try:
        gone = call_as(call, batch.owner, "destroy", {"agent": name, "recursive": True})
    except HiveError:
        return call, frozenset()
    if not isinstance(gone, Change):
        raise TypeError("the end of an agent is a change")
    return call._replace(hive=gone.hive), gone.wakes


def _tell_owner(call: Call, batch: Batch) -> frozenset[str]:
    """One message when all of it is over, with a line for each task."""
    name = called_or_none(call, batch.owner)
    if name is None:
        return frozenset()
    items = call.ledger.plans.batches.items(batch.id)
    ends = [_ended_as(call, each) for each in items]
    counts = {status: [each for each, _ in ends].count(status) for status, _ in ends}
    head = json.dumps({"batch": batch.id, "state": batch.state, "counts": counts})
    lines = [f"{at}. {status}: {said}" for at, (status, said) in enumerate(ends)][:_LINES]
    title = f" ({one_line(batch.title)})" if batch.title else ""
    text = f"Batch {batch.id}{title} is over; get_batch shows all of it."
    return tell(call, call.hive, name, BATCH_DONE, "\n".join([head, text, *lines]))


def _ended_as(call: Call, item: BatchItem) -> tuple[str, str]:
    task = call.ledger.tasks.get(item.task) if item.task else None
    if task is None or task.result is None:
        status, _, why = item.reason.partition(": ")
        return status or ResultStatus.FAILED.value, why
    said = one_line(task.result.summary or task.result.error)
    return task.result.status.value, said[:_SAID]
