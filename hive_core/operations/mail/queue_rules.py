"""Rights on queues: the declaration of the owner, applied to the present tree."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import InvalidArgument, NotFound
from hive_core.model.agents.agent import Role
from hive_core.model.work.queue import WORDS, Queue, QueueAccess
from hive_core.policy.decide import visible_names
from hive_core.policy.relationship import (
    TO_CHILD,
    TO_FARTHER_ANCESTOR,
    TO_PARENT,
    TO_SIBLING,
    is_visible,
    relationship,
)

Rights = frozenset[str]
_WORDS: Final = {
    "children": frozenset({TO_PARENT}), "subtree": frozenset({TO_PARENT, TO_FARTHER_ANCESTOR}),
    "siblings": frozenset({TO_SIBLING}), "parent": frozenset({TO_CHILD}),
}  # fmt: skip
_ALL: Final = frozenset({"put", "take", "close"})
_TASK: Final = Role.TASK


def find_queue(call: Call, text: str) -> Queue | None:
    """The queue that a caller names: `OWNER/NAME`, or the name of a queue of its own."""
    owner, slash, name = text.rpartition("/")
    spec = call.hive.specs.get(owner if slash else call.caller)
    return None if spec is None else call.ledger.queues.find(spec.id, name)


def owner_name(call: Call, queue: Queue) -> str:
    return call.hive.name(queue.owner) or queue.owner


def rights(call: Call, queue: Queue) -> Rights:
    """What the caller may do with a queue. An agent without any right does not see the queue.

    An agent of role `task` writes to its parent only, so it may put into the queues of its parent
    only.
    """
    owner = call.hive.name(queue.owner)
    if call.by_operator or owner is None:
        return _ALL if owner is not None else frozenset()
    task = call.hive.spec(call.caller).role is _TASK
    standing = relationship(call.hive, call.caller, owner)
    if owner == call.caller:
        return _ALL
    if not is_visible(call.hive, call.caller, owner) or (task and standing != TO_PARENT):
        return frozenset()
    held = {"put": queue.may_put, "take": queue.may_take}
    return frozenset(word for word, rule in held.items() if _lets(rule, standing, call.uuid))


def _lets(rule: QueueAccess, standing: int, uuid: str) -> bool:
    return uuid in rule.agents or any(standing in _WORDS[word] for word in rule.words)


def parse_access(call: Call, said_: list[str], field: str) -> QueueAccess:
    """Parse the access that an owner declares; it must see the agents that it names."""
    names = [name for name in dict.fromkeys(said_) if name not in WORDS]
    hidden = set(names) - set(visible_names(call.hive, call.caller)) if names else set()
    if hidden:
        raise NotFound(f"no such agent: {sorted(hidden)[0]}")
    for name in names:
        if not is_visible(call.hive, name, call.caller):
            raise InvalidArgument(f"{name} does not see you", field=field)
    words = tuple(name for name in WORDS if name in said_)
    return QueueAccess(words, tuple(call.hive.spec(name).id for name in names))


def access_words(call: Call, rule: QueueAccess) -> list[str]:
    """An access in the words of its declaration, with the present names."""
    return [*rule.words, *(call.hive.name(uuid) or uuid for uuid in rule.agents)]


def queue_topic(number: int, kind: str = "") -> str:
    """The topic of new items in a queue: of any kind, or of one kind."""
    return f"queue:{number}:{kind}" if kind else f"queue:{number}"


def all_waiters_topic(number: int) -> str:
    """The topic of all calls that wait for items of a queue."""
    return f"queue:{number}:*"
