"""Hops: how many messages of agents a message follows from (attack 44).

A message that is sent in the turn of another has one more hop than that. So a message that makes
models send it on, or two agents that answer each other for ever, come to an end. The sender names
the message that it works on.

- An agent with a runtime is refused above the limit. What its session, which is the root of its
  container, does not name counts all the same: as the message with the most hops that it has not
  acked, or that was delivered to it lately.
- A program without a runtime passes on the hops of the message that it names or replies to, and is
  not refused: it does what its author wrote, and what goes round with a model ends at the model.

What a name can do is to choose among messages that the agent received. It cannot lower the count of
what a tool of the agent sends, and a message of another agent does not count.
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Mutation
from hive_core.errors import NotAllowed

HOPS_MOST: Final = 8
RULE: Final = "hops"


class InTurn(Mutation):
    """Parameters of an operation that is called in the turn of a message."""

    in_turn_of: str | None = Field(
        None, min_length=1, max_length=64,
        description="Id of the message that the caller works on; of several, the one with the most"
        " hops. Absent, for an agent with a runtime: the worst that it may work on.",
    )  # fmt: skip


def next_hops(
    call: Call, doing: str, in_turn_of: str | None, reply_to: str | None = None
) -> int:  # fmt: skip
    """Hops of what the caller sends now; NotAllowed above the limit, where a model sends."""
    hops = hops_of_turn(call, in_turn_of, reply_to)
    if hops is None:
        return 0
    if hops >= HOPS_MOST and _has_runtime(call):
        raise NotAllowed(
            f"cannot {doing}: it follows from {hops} messages that agents sent one in the turn of"
            f" the other, and {HOPS_MOST} is the limit; start from a message of the operator, or"
            " name the message that you work on (in_turn_of)",
            rule=RULE,
        )
    return min(hops + 1, HOPS_MOST)


def hops_of_turn(call: Call, in_turn_of: str | None, reply_to: str | None = None) -> int | None:
    """Hops of the message in whose turn the caller acts; None: of its own accord."""
    if call.by_operator:
        return None
    names = in_turn_of, reply_to
    named = [hops for name in names if name and (hops := _received_hops(call, name)) is not None]
    if not _has_runtime(call) or (named and _is_root_of_container(call)):
        return max(named, default=None)
    mail = call.ledger.messages
    levels = [*named, mail.hops_in_hand(call.uuid), mail.recent_hops(call.uuid, call.now)]
    return max((hops for hops in levels if hops is not None), default=None)


def _has_runtime(call: Call) -> bool:
    return call.hive.spec(call.caller).runtime is not None


def _received_hops(call: Call, name: str) -> int | None:
    """Hops of a message that the caller received; of no other."""
    message = call.ledger.messages.get(name)
    return message.hops if message is not None and message.recipient == call.uuid else None


def _is_root_of_container(call: Call) -> bool:
    return call.uid == (call.ledger.ranges.base(call.uuid) or 0)
