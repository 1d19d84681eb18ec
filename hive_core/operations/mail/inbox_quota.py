"""The share of an inbox that one sender may use: no sender may keep out the others.

Any sender may use the first quarter of an inbox. Above that, a share is a part of the free room: a
sender that holds half as much as is free (in the operator's inbox: a third) has to wait. So each
further sender gets a share too, and a sender without messages always finds room.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hive_core.broker.call import Call
from hive_core.errors import InboxFull
from hive_core.ledger.mail.inbox_shares import Crowd
from hive_core.model.agents.hive import branch_top
from hive_core.model.wire.record import OPERATOR

# The free room must exceed this multiple of what a sender holds.
SENDER, TO_OPERATOR = 2.0, 3.0
# One tree leaves a sixteenth of the operator's inbox to the other trees.
TREE: Final = 16
BODY_MOST: Final = 64 * 1024  # bytes of one letter
_SMALLEST: Final = 16  # messages; a smaller inbox has no room for shares


class Held(NamedTuple):
    """A number of messages and of bytes."""

    letters: int = 0
    bytes: int = 0

    def plus(self, more: tuple[int, int]) -> Held:
        return Held(self.letters + more[0], self.bytes + more[1])


def check_share(call: Call, recipient: str, to: str) -> None:
    """Refuse a message of a sender when it or its branch has used up its share of the inbox.

    An agent that can create others could fill the operator's inbox through them. So in that inbox
    each subtree has a share too; the first branch gets a third. The share of a subtree is larger
    than that of one agent and of the subtrees in it, so that a full share leaves room to its
    neighbours. For a sender without messages, the number of senders in a subtree counts instead of
    their messages, so that its neighbours cannot keep it out.
    """
    crowd = call.ledger.messages.bytes_by_sender(recipient)
    if not crowd or call.by_operator or call.settings.limits.inbox_count < _SMALLEST:
        return
    free = _free(call, recipient)
    sender = call.uuid if call.sub is None else call.party
    mine = Held(*crowd.get(sender, (0, 0)))
    if recipient != OPERATOR:
        if _too_much(mine, free, SENDER):
            raise _refusal(to, "your share of this inbox is used up")
        return
    lineage = call.hive.topology.lineage(call.caller)
    if _too_much(mine, free, TO_OPERATOR):
        raise _refusal(to, "your share of this inbox is used up")
    chain = (call.caller, *lineage)
    held = _subtrees(call, crowd if mine.letters else _once(crowd), chain)
    for depth, name in zip(range(len(lineage), 0, -1), chain, strict=False):
        if _too_much(held[name], free, _part(depth)):
            raise _refusal(to, f"much of it is from {name} and below")
    if _fills(call, held[chain[-1]]):
        raise _refusal(to, f"nearly all of it is from {chain[-1]} and below")


def _subtrees(call: Call, crowd: Crowd, chain: tuple[str, ...]) -> dict[str, Held]:
    """The messages in the inbox from each agent of the chain with its descendants."""
    held = dict.fromkeys(chain, Held())
    for uuid, more in crowd.items():
        if (name := standing_in(call, uuid)) is not None:
            for agent in (name, *call.hive.topology.lineage(name)):
                if agent in held:
                    held[agent] = held[agent].plus(more)
    return held


def _once(crowd: Crowd) -> Crowd:
    """The same as if each sender had one letter."""
    return {uuid: (1, min(size, BODY_MOST)) for uuid, (_, size) in crowd.items()}


def _free(call: Call, recipient: str) -> Held:
    limits, (count, size) = call.settings.limits, call.ledger.messages.size(recipient)
    return Held(limits.inbox_count - count, limits.inbox_bytes - size)


def _part(depth: int) -> float:
    """2 for a branch, which is at depth 1, and less than `TO_OPERATOR` however deep."""
    return (9 * depth - 1) / (3 * depth + 1)


def _too_much(held: Held, free: Held, part: float) -> bool:
    return held.letters * part >= max(free.letters, 1) or held.bytes * part >= max(free.bytes, 1)


def _fills(call: Call, tree: Held) -> bool:
    limits = call.settings.limits
    most = Held(limits.inbox_count * (TREE - 1), limits.inbox_bytes * (TREE - 1))
    return tree.letters * TREE >= most.letters or tree.bytes * TREE >= most.bytes


def _refusal(to: str, why: str) -> InboxFull:
    return InboxFull(
        f"cannot send to {to}: its inbox is filling up, and {why}; the bounds are [limits] "
        "inbox_count and inbox_bytes",
        setting="limits.inbox_bytes",
    )


def standing_in(call: Call, uuid: str) -> str | None:
    """The agent; for a destroyed agent the nearest living agent above it."""
    above: str | None = uuid
    while above is not None:
        if (name := call.hive.name(above)) is not None:
            return name
        archive = call.ledger.archives.get(above)
        above = archive.parent if archive else None
    return None


def branch_id(call: Call) -> str:
    """UUID of the branch that the caller is in; the operator is its own branch."""
    return call.uuid if call.by_operator else call.hive.spec(branch_top(call.hive, call.caller)).id
