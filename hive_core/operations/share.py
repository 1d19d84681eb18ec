"""How much of an inbox one sender may take: what one fills must not keep out the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hive_core.broker.call import Call
from hive_core.errors import InboxFull
from hive_core.ledger.crowds import Crowd
from hive_core.model.hive import Hive
from hive_core.model.record import OPERATOR

# Of a box that is half full or more: one sender, and one branch of the tree in the operator's.
EIGHTH, HALF = 8, 2
_SMALLEST: Final = 16  # messages; a smaller box has no room for shares


def check_share(call: Call, recipient: str, to: str) -> None:
    """Refuse one more message of who fills the box, or whose branch fills the operator's.

    Half of a box is for whoever comes first. An agent that can create others could fill the
    operator's by their hands: so its branch, everyone below the same child of a root, leaves half
    of it to the others.
    """
    crowd = call.ledger.messages.crowd(recipient)
    if not crowd or call.by_operator or call.settings.limits.inbox_count < _SMALLEST:
        return
    if _holds(call, crowd, (call.uuid,), EIGHTH):
        raise InboxFull(f"cannot send to {to}: its inbox is half full, and much of it with yours")
    if recipient == OPERATOR:
        mine = branch(call.hive, call.caller)
        names = ((uuid, standing_in(call, uuid)) for uuid in crowd)
        same = [uuid for uuid, name in names if name and branch(call.hive, name) == mine]
        if _holds(call, crowd, same, HALF):
            raise InboxFull(f"cannot send to {to}: half of its inbox is from {mine} and below")


def _holds(call: Call, crowd: Crowd, senders: Iterable[str], part: int) -> bool:
    limits = call.settings.limits
    held = [crowd.get(sender, (0, 0)) for sender in senders]
    count, size = sum(each[0] for each in held), sum(each[1] for each in held)
    return count * part >= limits.inbox_count or size * part >= limits.inbox_bytes


def standing_in(call: Call, uuid: str) -> str | None:
    """The agent, or for one that was destroyed the nearest above it that lives."""
    above: str | None = uuid
    while above is not None:
        if (name := call.hive.name(above)) is not None:
            return name
        archive = call.ledger.archives.get(above)
        above = archive.parent if archive else None
    return None


def branch(hive: Hive, name: str) -> str:
    """The child of a root that the agent is or hangs below; a root is a branch by itself."""
    chain = (name, *hive.topology.lineage(name))
    return chain[-2] if len(chain) > 1 else name


def branch_id(call: Call) -> str:
    """UUID of the branch that the caller is in; the operator is one by itself."""
    return call.uuid if call.by_operator else call.hive.spec(branch(call.hive, call.caller)).id
