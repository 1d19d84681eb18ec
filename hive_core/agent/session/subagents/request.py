"""Whether the session starts what a sub-agent asks for: the daemon has to have opened it for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from hive_core.agent.session.state import number
from hive_core.agent.session.subagents.channel import RULE, StartRequest
from hive_core.agent.session.subagents.launch import GrantedSubagent, Launch
from hive_core.agent.session.subagents.order import ForkOrder, read_order
from hive_core.agent.session.subagents.process import UIDS
from hive_core.agent.session.subagents.settings import ForkSettings
from hive_core.errors import NotAllowed
from hive_core.varlink import Message

_WIRE_MOST: Final = 32


@dataclass(frozen=True, slots=True)
class Asker:
    """The sub-agent that asks: the session opened its channel, so it is known by that alone.

    `started`: those that were started for it. `has_users`: sub-agents have users of their own.
    """

    agent: str
    id: str
    started: Set[str]
    has_users: bool


def judge_request(
    asker: Asker, request: StartRequest, listed: Sequence[Message], settings: ForkSettings
) -> Launch:
    """What is to be started for the asker; a HiveError says why nothing is.

    `listed`: the open sub-agents, as the daemon lists them. User and depths are those that it wrote
    when it opened the sub-agent. The limits of the configuration are checked again, as before each
    fork of the session itself.
    """
    if request.id in asker.started:
        raise _refusal(f"{_excerpt(request.id)} was started already")
    row = next((row for row in listed if row.get("id") == request.id), None)
    if row is None or row.get("parent") != f"{asker.agent}/{asker.id}":
        raise _refusal(f"the daemon opened no sub-agent {_excerpt(request.id)} for {asker.id}")
    opened = read_opened(row, has_user=asker.has_users)
    order = read_order(request.hydration)
    _compare(order, opened)
    settings.check_fork(
        is_clone=order.is_clone, depth=opened.depth - 1,
        clone_depth=opened.clone_depth - order.is_clone,
    )  # fmt: skip
    seconds = min(request.seconds, settings.timeout_seconds)
    return Launch(opened, order, request.hydration, seconds, not settings.cleanup_temp_files)


def read_opened(row: Mapping[str, object], *, has_user: bool) -> GrantedSubagent:
    """A sub-agent in a row of the daemon. Where tools run as the session does, it does too."""
    uid = number(row.get("uid")) if has_user else None
    if uid is not None and uid not in UIDS:
        raise _refusal(f"{uid} is not the uid of a sub-agent")
    return GrantedSubagent(
        str(row.get("id") or ""), str(row.get("name") or ""), str(row.get("kind") or ""), uid,
        number(row.get("depth")), number(row.get("clone_depth")),
    )  # fmt: skip


def _compare(order: ForkOrder, opened: GrantedSubagent) -> None:
    """The log must be for this sub-agent; NotAllowed names what it says otherwise."""
    pairs: Mapping[str, tuple[object, object]] = {
        "id": (order.subagent, opened.id), "kind": (order.kind, opened.kind),
        "name": (order.name, opened.name), "depth": (order.depth, opened.depth),
        "clone_depth": (order.clone_depth, opened.clone_depth),
    }  # fmt: skip
    for key, (said, is_so) in pairs.items():
        if type(said) is not type(is_so) or said != is_so:  # True is no depth
            raise _refusal(f"its log says {key} {_excerpt(said)}, and the daemon says {is_so}")
    wire: object = order.model.get("wire")
    if not isinstance(wire, str) or len(wire) > _WIRE_MOST:
        raise _refusal("its log names no wire of a model")


def _excerpt(said: object) -> str:
    """What the asker said, in one line of a log."""
    return ascii(said)[:66]


def _refusal(reason: str) -> NotAllowed:
    return NotAllowed(f"cannot start a sub-agent: {reason}", rule=RULE)
