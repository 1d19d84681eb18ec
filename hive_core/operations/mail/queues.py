"""Named queues: the owner says which agents may put items in and which may take them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.operation import Mutation, Params, Result, Whose, operation
from hive_core.errors import InvalidArgument, LimitReached, NotAllowed
from hive_core.ledger.mail.queues import TakeFilter
from hive_core.model.agents.agent import Role
from hive_core.model.work.queue import Queue, QueueItem, queue_item_id
from hive_core.operations.fields import WAIT_MOST
from hive_core.operations.mail.queue_hooks import SWEPT, report_dead_things
from hive_core.operations.mail.queue_rules import (
    Rights,
    access_words,
    all_waiters_topic,
    find_queue,
    owner_name,
    parse_access,
    queue_topic,
    rights,
)
from hive_core.operations.mail.send import PRIORITY, Body, Kind, urgency
from hive_core.operations.pages import Page, Paged, take_fitting
from hive_core.policy.decide import relation
from hive_core.policy.rules import OPERATOR, SELF, fact_rule

Name = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
Where = Annotated[
    str,
    Field(
        max_length=128, description="Name of the queue; for a queue of another owner `OWNER/NAME`."
    ),
]
Rule = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=64)]

_PUT = (
    SELF
    | OPERATOR
    | fact_rule("put", "an agent that its owner lets put", "its owner does not let you put")
)
_TAKE = SELF | OPERATOR | fact_rule(
    "take", "an agent that its owner lets take", "its owner does not let you take"
)  # fmt: skip


class OpenQueueParams(Mutation):
    name: Name = Field(description="Unique among the caller's queues.")
    may_put: Rule = Field(
        ["children"],
        description="Agents that may put items in: `children`, `subtree`, `siblings`, `parent`, or"
        " names.",
    )
    may_take: Rule = Field(
        ["children"], description="Agents that may take items out, in the same words."
    )
    limit: int | None = Field(
        None, ge=1, description="Maximum number of items; absent: a setting (1000)."
    )


class Opened(Result):
    queue: str = Field(description="`OWNER/NAME`, as other agents name it.")


class PutParams(Mutation):
    queue: Where
    body: Body = Field(description="Text, at most 64 KiB.")
    kind: Kind = Field("thing", description="Kind of the item, for agents that take one kind only.")
    priority: int = Field(PRIORITY, ge=0, le=3, description="Priority, bounded as for `send`.")


class Put(Result):
    id: str = Field(description="Id of the item; never used again.")
    priority: int = Field(description="Priority that the item got.")


class TakeParams(Params):
    queue: Where
    wait: float = Field(0.0, ge=0, le=WAIT_MOST, description="Seconds to wait when there is none.")
    max: int = Field(1, ge=1, le=100, description="Maximum number of items.")
    lease: float | None = Field(
        None, ge=1, le=3600,
        description="Seconds after which an unacknowledged item is ready again; 60 if absent.",
    )  # fmt: skip
    min_priority: int = Field(
        3, ge=0, le=3, description="Only items of this priority or a more urgent one."
    )
    kind: Kind | None = Field(None, description="Only this kind; other items stay in the queue.")
    dead: bool = Field(
        default=False, description="Whether to take dead items; only the owner of the queue may."
    )


class Taken(Result):
    id: str = Field(description="Id of the item, for `ack` and `nack`.")
    queue: str = Field(description="`OWNER/NAME`.")
    sender: str = Field(serialization_alias="from", description="Name of the sender at that time.")
    from_uuid: str = Field(description="UUID of the sender.")
    kind: str = Field(description="Kind of the item, for programs.")
    priority: int = Field(description="0 (critical) to 3 (low).")
    put_at: float = Field(description="Seconds since 1970.")
    body: str = Field(description="The text.")
    attempt: int = Field(description="How often it was taken, this time included.")


class Things(Result):
    things: list[Taken] = Field(description="The items.")


class CloseQueueParams(Mutation):
    queue: Where


class Closed(Result):
    left: int = Field(
        description="Number of items that were not taken; the daemon tells their senders."
    )


class ListQueuesParams(Paged):
    """Nothing more."""


class QueueRow(Result):
    queue: str = Field(description="`OWNER/NAME`.")
    may_put: list[str] = Field(description="Agents that may put items in: words and names.")
    may_take: list[str] = Field(description="Agents that may take items out.")
    mine: list[str] = Field(description="What the caller may do: `put`, `take`, `close`.")
    things: int = Field(description="Number of items in it, taken and dead ones included.")
    limit: int = Field(description="Maximum number of items.")
    dead: bool = Field(description="Whether it holds dead items.")


class QueuesPage(Page):
    queues: list[QueueRow] = Field(
        description="The queues that the caller may use, the oldest first."
    )


def _facts(call: Call, params: PutParams | TakeParams) -> frozenset[str]:
    queue = find_queue(call, params.queue)
    return frozenset() if queue is None else rights(call, queue) & {"put", "take"}


def _whose(call: Call, params: PutParams | TakeParams | CloseQueueParams) -> str | None:
    """The owner of a queue; None when the caller has no right on the queue."""
    queue = find_queue(call, params.queue)
    return owner_name(call, queue) if queue is not None and rights(call, queue) else None


_THE_QUEUE = Whose("queue", "queue", _whose)


@operation(action="send", allow=SELF)
def open_queue(call: Call, params: OpenQueueParams) -> Record[Opened]:
    """Open a queue of the caller, and declare which agents may put items in and take them out.

    Items are durable and go to the first agent that takes them. Only agents that may use the queue
    see it. The queue is closed when its owner is destroyed.
    """
    if call.by_operator:
        raise InvalidArgument("the operator has no queues of its own", field="name")
    if call.hive.spec(call.caller).role is Role.TASK:
        raise NotAllowed(
            f"cannot open {params.name}: an agent of role task may write to its parent only"
        )
    bounds, queues = call.settings.queues, call.ledger.queues
    if queues.count(call.uuid) >= bounds.open:
        raise LimitReached(f"cannot open {params.name}: {call.caller} has {bounds.open} queues")
    most = bounds.things if params.limit is None else params.limit
    if most > bounds.most:
        raise InvalidArgument(f"at most {bounds.most}", field="limit")
    put, take = (
        parse_access(call, params.may_put, "may_put"),
        parse_access(call, params.may_take, "may_take"),
    )
    queues.open(Queue(0, call.uuid, params.name, put, take, most, call.now, 0, 0))
    return Record(Opened(queue=f"{call.caller}/{params.name}"))


@operation(action="send", allow=_PUT, whose=_THE_QUEUE, preposition="into a queue of", facts=_facts)
def put(call: Call, params: PutParams) -> Record[Put]:
    """Put an item into a queue, where it waits until an agent takes it.

    The owner of the queue declares which agents may do so. An agent of role `task` may put into
    queues of its parent only.
    """
    queue = _require_queue(call, params.queue)
    after = call.ledger.sends.take((call.uuid, queue_topic(queue.number)), call.now)
    if after > 0 and not call.by_operator:
        reason = f"cannot put into {params.queue}: too many items, try again in {after:.2f} s"
        raise LimitReached(reason, retry_after=after)
    owner = owner_name(call, queue)
    standing = relation(call.hive, call.caller, owner)
    urgent = urgency(params.priority, standing)
    thing = QueueItem(0, call.uuid, call.caller, params.kind, urgent, call.now, params.body)
    number = call.ledger.queues.put(queue, thing, call.settings.queues.bytes)
    call.notify(queue_topic(queue.number), queue_topic(queue.number, params.kind))
    return Record(Put(id=number, priority=urgent))


@operation(
    action="receive", allow=_TAKE, whose=_THE_QUEUE, preposition="out of a queue of", facts=_facts
)
def take(call: Call, params: TakeParams) -> Record[Things] | Wait[Things]:
    """Take items out of a queue under a lease. `ack` them when they are done.

    An item becomes ready again until an agent acks it. After 5 attempts it is dead: it stays in the
    queue for the owner, and the daemon tells the owner. Items that do not match `kind` and
    `min_priority` stay untouched.
    """
    queue, queues = _require_queue(call, params.queue), call.ledger.queues
    if params.dead and call.uuid != queue.owner:
        raise InvalidArgument("dead items are for the owner of the queue", field="dead")
    lost = queues.end_leases(queue, call.settings.limits.attempts, call.now)
    reported = report_dead_things(call, queue, lost)
    lease = call.settings.grace.lease if params.lease is None else params.lease
    wanted = TakeFilter(params.max, lease, params.min_priority, params.kind, dead=params.dead)
    taken = queues.take(queue, call.uuid, wanted, call.now)
    answer = Things(things=[_taken_item(call, queue, item) for item in taken])
    if taken or params.wait <= 0 or reported:
        return Record(answer)
    topics = frozenset(
        {queue_topic(queue.number, params.kind or ""), all_waiters_topic(queue.number)}
    )
    return Wait(topics, call.now + params.wait, answer, until=queues.next_due(queue))


@operation(action="send", allow=SELF | OPERATOR, whose=_THE_QUEUE)
def close_queue(call: Call, params: CloseQueueParams) -> Record[Closed]:
    """Close a queue of the caller.

    Items that were not taken are deleted, and the daemon tells their senders.
    """
    queue = _require_queue(call, params.queue)
    call.ledger.queues.close(queue)
    call.notify(all_waiters_topic(queue.number), SWEPT)
    return Record(Closed(left=queue.things))


@operation(action="read", allow=SELF)
def list_queues(call: Call, params: ListQueuesParams) -> QueuesPage:
    """List the queues that the caller may put into or take from, and its own queues."""
    after = params.after or "0"
    if not after.isdecimal():
        raise InvalidArgument("is not `next` of a page", field="after")
    looked = call.ledger.queues.page(int(after), params.most)
    rows = [
        (_row(call, queue, held), queue.number) for queue in looked if (held := rights(call, queue))
    ]
    listed = list(take_fitting(rows, lambda row: len(row[0].model_dump_json()) + 16))
    cut = len(listed) < len(rows)
    last = listed[-1][1] if cut else looked[-1].number if looked else 0
    full = cut or len(looked) == params.most
    return QueuesPage(queues=[row for row, _ in listed], next=str(last) if full else None)


def _require_queue(call: Call, text: str) -> Queue:
    queue = find_queue(call, text)
    if queue is None:  # authorized a moment ago
        raise InvalidArgument(f"no queue {text}", field="queue")
    return queue


def _taken_item(call: Call, queue: Queue, thing: QueueItem) -> Taken:
    return Taken(
        id=queue_item_id(thing.id), queue=f"{owner_name(call, queue)}/{queue.name}",
        sender=thing.sender_name, from_uuid=thing.sender, kind=thing.kind,
        priority=thing.priority, put_at=thing.put_at, body=thing.body, attempt=thing.attempt,
    )  # fmt: skip


def _row(call: Call, queue: Queue, held: Rights) -> QueueRow:
    return QueueRow(
        queue=f"{owner_name(call, queue)}/{queue.name}", may_put=access_words(call, queue.may_put),
        may_take=access_words(call, queue.may_take), mine=sorted(held), things=queue.things,
        limit=queue.most, dead=call.ledger.queues.has_dead(queue),
    )  # fmt: skip
