"""Items of queues that end without an ack: after the last attempt, or in a closed queue."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.queue import Queue
from hive_core.operations.mail.queue_rules import all_waiters_topic, owner_name, queue_topic
from hive_core.operations.notices import send_notice

DEAD: Final = "queue_dead_letter"
CLOSED: Final = "queue_closed"
_LISTED: Final = 20
SWEPT: Final = "queue:closed"


@due(
    at=lambda ledger: 0.0 if ledger.queues.next_closed_queue() else None,
    topics=frozenset({"queue"}),
)
def closed_queues(call: Call) -> Record[Result]:
    """Empty closed queues, a part at a time, and tell the senders of items that were not taken."""
    queue = call.ledger.queues.next_closed_queue()
    for sender, ids in call.ledger.queues.sweep(queue).items() if queue is not None else ():
        name = THE_OPERATOR if sender == THE_OPERATOR else call.hive.name(sender)
        if queue is not None and name is not None:
            body = f"the queue {queue.name} was closed before these items of yours were taken"
            send_notice(call, call.hive, name, CLOSED, f"{body}: {_some(ids)}", priority=2)
    return Record(Result())


@on(AgentDestroyed)
def close_queues(call: Call, event: AgentDestroyed) -> None:
    """Close the queues of a destroyed agent, and release the items that it had taken."""
    numbers = call.ledger.queues.close_all_of(event.uuid, call.now)
    call.notify(SWEPT, *map(all_waiters_topic, numbers))


def give_back(call: Call, ids: list[str], *, dead: bool) -> list[str]:
    """Do the part of `nack` that is about queues; return the ids of the items that are dead now."""
    most = call.settings.limits.attempts
    things = call.ledger.queues.nack(call.uuid, ids, most, dead=dead)
    for number in {thing.queue for thing in things if thing.dead}:
        if (queue := call.ledger.queues.by_number(number)) is not None:
            dead_ids = [thing.id for thing in things if thing.dead and thing.queue == number]
            report_dead_things(call, queue, dead_ids)
    for thing in things:
        call.notify(queue_topic(thing.queue), queue_topic(thing.queue, thing.kind))
    return [thing.id for thing in things if thing.dead]


def report_dead_things(call: Call, queue: Queue, ids: list[str]) -> bool:
    """Tell the owner of a queue about dead items, which stay in it until the owner takes them.

    Return whether a message was sent: there may be no dead items, or no owner.
    """
    if not ids or call.hive.name(queue.owner) is None:
        return False
    body = f"dead in your queue {queue.name} after too many attempts: {_some(ids)}"
    send_notice(call, call.hive, owner_name(call, queue), DEAD, body)
    return True


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return f"{', '.join(ids[:_LISTED])}{more}"
