"""How things in queues end without being acked: given up, or left in a queue that was closed."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import Gone, when
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.model.wire.record import OPERATOR as THE_OPERATOR
from hive_core.model.work.queue import Queue
from hive_core.operations.mail.queue_rules import everybody, owner_name, topic
from hive_core.operations.notices import tell

DEAD: Final = "queue_dead_letter"
CLOSED: Final = "queue_closed"
_LISTED: Final = 20
SWEPT: Final = "queue:closed"


@due(at=lambda ledger: 0.0 if ledger.queues.closed() else None, topics=frozenset({"queue"}))
def closed_queues(call: Call) -> Record[Result]:
    """Empty what was closed, a part at a time; who put something there that nobody took is told."""
    queue = call.ledger.queues.closed()
    wakes = frozenset[str]()
    for sender, ids in call.ledger.queues.sweep(queue).items() if queue is not None else ():
        name = THE_OPERATOR if sender == THE_OPERATOR else call.hive.name(sender)
        if queue is not None and name is not None:
            body = f"the queue {queue.name} was closed, and nobody took what you put into it"
            wakes |= tell(call, call.hive, name, CLOSED, f"{body}: {_some(ids)}", priority=2)
    return Record(Result(), wakes=wakes)


@when(Gone)
def nobody_s(call: Call, what: Gone) -> frozenset[str]:
    """Its queues are closed, and what it had taken is free for others."""
    numbers = call.ledger.queues.gone(what.uuid, call.now)
    return frozenset({SWEPT, *map(everybody, numbers)})


def given_back(call: Call, ids: list[str], *, dead: bool) -> tuple[list[str], frozenset[str]]:
    """The part of `nack` that is about queues: the ids that are dead, and topics to touch."""
    most = call.settings.limits.attempts
    back = call.ledger.queues.nack(call.uuid, ids, most, dead=dead)
    wakes = set[str]()
    for number in {each.queue for each in back if each.dead}:
        if (queue := call.ledger.queues.numbered(number)) is not None:
            gone = [each.id for each in back if each.dead and each.queue == number]
            wakes |= given_up(call, queue, gone)
    for each in back:
        wakes |= {topic(each.queue), topic(each.queue, each.kind)}
    return [each.id for each in back if each.dead], frozenset(wakes)


def given_up(call: Call, queue: Queue, ids: list[str]) -> frozenset[str]:
    """The owner hears of what was given up; it stays in the queue until the owner takes it."""
    if not ids or call.hive.name(queue.owner) is None:
        return frozenset()
    body = f"given up in your queue {queue.name} after too many attempts: {_some(ids)}"
    return tell(call, call.hive, owner_name(call, queue), DEAD, body)


def _some(ids: list[str]) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return f"{', '.join(ids[:_LISTED])}{more}"
