"""Who may use a queue: what its owner said, by the tree as it is now."""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import InvalidArgument, NotFound
from hive_core.model.agents.agent import Role
from hive_core.model.work.queue import WORDS, Queue, QueueAccess
from hive_core.policy.decide import visible_names
from hive_core.policy.relationship import (
    CHILD,
    DESCENDANT,
    PARENT,
    SIBLING,
    is_visible,
    relationship,
)

Rights = frozenset[str]
_WORDS: Final = {
    "children": frozenset({CHILD}), "subtree": frozenset({CHILD, DESCENDANT}),
    "siblings": frozenset({SIBLING}), "parent": frozenset({PARENT}),
}  # fmt: skip
_ALL: Final = frozenset({"put", "take", "close"})
_TASK: Final = Role.TASK


def find_queue(call: Call, text: str) -> Queue | None:
    """The queue that a caller means: `OWNER/NAME`, or a name of its own."""
    owner, slash, name = text.rpartition("/")
    spec = call.hive.specs.get(owner if slash else call.caller)
    return None if spec is None else call.ledger.queues.find(spec.id, name)


def owner_name(call: Call, queue: Queue) -> str:
    return call.hive.name(queue.owner) or queue.owner


def rights(call: Call, queue: Queue) -> Rights:
    """What the caller may do with a queue. Who may nothing does not see it.

    A task writes to its parent only, so that it puts nothing into other queues than its parent's.
    """
    owner = call.hive.name(queue.owner)
    if call.by_operator or owner is None:
        return _ALL if owner is not None else frozenset()
    task = call.hive.spec(call.caller).role is _TASK
    standing = relationship(call.hive, call.caller, owner)
    if owner == call.caller:
        return _ALL
    if not is_visible(call.hive, call.caller, owner) or (task and standing != CHILD):
        return frozenset()
    held = {"put": queue.may_put, "take": queue.may_take}
    return frozenset(word for word, rule in held.items() if _lets(rule, standing, call.uuid))


def _lets(rule: QueueAccess, standing: int, uuid: str) -> bool:
    return uuid in rule.agents or any(standing in _WORDS[word] for word in rule.words)


def parse_access(call: Call, said_: list[str], field: str) -> QueueAccess:
    """What an owner said; agents that it names are kept by UUID, and it has to see them."""
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
    """A rule in the words that it was said in; names of now."""
    return [*rule.words, *(call.hive.name(uuid) or uuid for uuid in rule.agents)]


def queue_topic(number: int, kind: str = "") -> str:
    """What is touched when something comes into a queue: anything, or one kind."""
    return f"queue:{number}:{kind}" if kind else f"queue:{number}"


def all_waiters_topic(number: int) -> str:
    """What is touched when all who wait there, whatever for, have to look again."""
    return f"queue:{number}:*"
