"""The ends of children.

The daemon keeps them, tells the parent, and answers its waits (rows K7, K10).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, on
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.broker.timers import due
from hive_core.errors import NotAllowed, NotFound
from hive_core.ledger.mail.posting import one_line
from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import DESTROYED, ExitRecord, has_unreported_exit
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.roles import after_task
from hive_core.model.wire.record import DAEMON, OPERATOR
from hive_core.operations.fields import WAIT_MOST, Agent
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.notices import send_notice
from hive_core.policy.relationship import NOBODY, STRANGER, UNSEEN, relationship
from hive_core.policy.rules import SELF

EXIT: Final = "child_exit"
KEPT: Final = 86_400.0
_BODY_MOST: Final = 16_384
_OVER: Final = frozenset({State.STOPPED, State.FAILED, State.PARKED, State.ABSENT})


class WaitChildParams(Mutation):
    agent: Agent | None = Field(
        None, description="The name of a child; its UUID after it is destroyed. Absent: any child."
    )
    wait: float = Field(WAIT_MOST, ge=0, le=WAIT_MOST, description="Seconds to wait at most.")


class ChildEnd(Result):
    name: str = Field(description="The name of the child at that time.")
    uuid: str = Field(description="The UUID of the child.")
    code: int | None = Field(
        description="Its exit status; null where there is none. 255 may also be a signal."
    )
    clean: bool = Field(description="Whether it exited with 0.")
    asked: bool = Field(description="Whether the end was requested, such as by a stop.")
    reason: str = Field(description="How it ended, or the reason given with the request.")
    output: str = Field(description="Its last lines; empty after a requested end.")
    ended_at: float = Field(description="When it ended, in seconds since 1970.")
    reaped: bool = Field(
        description="Whether it leaves the tree with this answer, as one-shot agents do."
    )


class WaitedChild(Result):
    child: ChildEnd | None = Field(
        description="The end of the child; null: no child ended in this time."
    )


class ForgottenEnds(Result):
    """Number of ends."""

    ends: int


@operation(action="work", allow=SELF)
def wait_child(call: Call, params: WaitChildParams) -> Record[WaitedChild] | Wait[WaitedChild]:
    """Wait until a child of the caller has ended for good; each end is returned once.

    Sleep, a restart, and a crash after which the daemon starts the child again do not count. A
    one-shot child (role `task`, or `after_task` exits) leaves the tree with this answer. The daemon
    keeps its end for a day, also when it has removed the child before. After that, or when the end
    was returned already, the error is NotFound.
    """
    child = None if params.agent is None else _child_uuid(call, params.agent)
    end = next((end for end in call.ledger.lives.uncollected_ends(call.uuid, child)), None)
    if end is None:
        awaited = _awaited_children(call, child, params.agent)
        topics = frozenset({f"child:{call.uuid}", *(f"state:{uuid}" for uuid in awaited)})
        return Wait(topics, call.now + params.wait, WaitedChild(child=None))
    reaped = end.reap is not None
    call.ledger.lives.collect(end, call.now, reap=reaped)
    call.notify(f"life:{end.agent}")
    result = WaitedChild(child=_child_end(end, reaped=reaped))
    return Record(result, fields={"agent": end.name, "uuid": end.agent})


def _child_end(end: ExitRecord, *, reaped: bool) -> ChildEnd:
    return ChildEnd(
        name=end.name, uuid=end.agent, code=end.code, clean=end.clean, asked=end.asked,
        reason=end.reason, output=end.output, ended_at=end.at, reaped=reaped,
    )  # fmt: skip


def _child_uuid(call: Call, name: str) -> str:
    """The UUID of a living or destroyed child of the caller."""
    if name in call.hive.specs:
        parent = call.hive.topology.parent(name)
        if (OPERATOR if parent is None else parent) == call.caller:
            return call.hive.spec(name).id
        if relationship(call.hive, call.caller, name) not in (NOBODY, UNSEEN, STRANGER):
            raise NotAllowed(f"cannot wait for {name}: not your child", rule="parent")
    for end in call.ledger.lives.uncollected_ends(call.uuid):
        if name in (end.name, end.agent):
            return end.agent
    raise NotFound(f"cannot wait for {name[:64]}: no child of yours, and no end of it is kept")


def _awaited_children(call: Call, child: str | None, name: str | None) -> list[str]:
    """UUIDs of the children that can still end; NotFound when there are none to wait for."""
    tree = call.hive.topology
    names = tree.roots if call.by_operator else tree.children(call.caller)
    uuids = [call.hive.spec(name).id for name in names] if child is None else [child]
    awaited = [uuid for uuid in uuids if _can_end(call, uuid)]
    if awaited:
        return awaited
    if child is None:
        raise NotFound("no child of yours runs, and all ends were returned")
    raise NotFound(f"{name} does not run, and its last end was returned already")


def _can_end(call: Call, uuid: str) -> bool:
    if call.hive.name(uuid) is None:
        return False
    starts = call.ledger.starts.get(uuid)
    retried = call.states.state(uuid) is State.FAILED and starts is not None and starts.returns
    over = call.states.state(uuid) in _OVER and not retried
    life, machine = call.ledger.lives.get(uuid), call.states.machine(uuid)
    return life.up or not over or (machine is not None and has_unreported_exit(life, machine))


@on(AgentStarted)
def _settle_earlier_ends(call: Call, event: AgentStarted) -> None:
    """Settle the earlier ends of an agent that runs again: it is not a zombie."""
    call.ledger.lives.settle_ends(event.uuid, call.now)
    call.ledger.messages.forget_reader(event.uuid)
    update_activity(call, event.uuid)
    call.notify(f"life:{event.uuid}")


@on(AgentEnded)
def _save_end(call: Call, event: AgentEnded) -> None:
    """Save an end for the parent; a one-shot agent is a zombie from now on."""
    stays = not event.returns and event.wanted != DesiredState.SLEEPING
    once = after_task(call.hive.spec(event.name)) is AfterTask.EXITS
    parent = call.hive.topology.parent(event.name)
    to = OPERATOR if parent is None else call.hive.spec(parent).id
    end = ExitRecord(
        0, event.uuid, event.name, to, str(event.fields.get("invocation", "")),
        int(str(event.fields.get("nonce", 0))), event.code, event.reason, event.clean, event.asked,
        event.wanted, stays, str(event.fields.get("output", "")), call.now,
        reap=call.now + call.settings.life.reap if stays and once else None,
        collected=None if stays else call.now,
    )  # fmt: skip
    if not call.ledger.lives.save_end(end):
        return
    call.notify(f"life:{event.uuid}", f"child:{to}")
    if stays and event.clean and not event.asked and parent is not None:
        _tell_parent(call, parent, end)


def _tell_parent(call: Call, parent: str, end: ExitRecord) -> None:
    """Tell the parent of a clean exit; a crash has a notice of another kind (row H23)."""
    text = f"{end.name} {end.reason}"
    body = f"{text}\n\nlast lines:\n{end.output}" if end.output else text
    send_notice(call, call.hive, parent, EXIT, body[:_BODY_MOST])


def tell_parents(call: Call, hive: Hive, names: Collection[str], done: str, why: str = "") -> None:
    """Tell each parent that a caller ended its child, unless the parent is that caller.

    A parent that is ended together with its child is not told, nor is any parent when the daemon
    removes an agent.
    """
    ended = frozenset(names)
    for name in names:
        parent = call.hive.topology.parent(name)
        if parent is None or parent in ended or call.caller in (parent, DAEMON):
            continue
        reason = f": {one_line(why)}" if why else ""
        send_notice(call, hive, parent, EXIT, f"{name} was {done} by {call.caller}{reason}")


@on(AgentDestroyed)
def _save_destruction(call: Call, event: AgentDestroyed) -> None:
    """Save the end of an agent that ran; the parent inherits the ends of its children."""
    lives, life = call.ledger.lives, call.ledger.lives.get(event.uuid)
    parent = call.hive.topology.parent(event.name)
    to = OPERATOR if parent is None else call.hive.spec(parent).id
    if life.up:
        lives.save_end(ExitRecord(
            0, event.uuid, event.name, to, life.invocation, life.nonce, None, DESTROYED,
            clean=False, asked=True, wanted=DESTROYED, stays=True, output="", at=call.now,
        ))  # fmt: skip
    lives.forget_life(event.uuid)
    call.ledger.messages.forget_reader(event.uuid)
    lives.reassign_ends(event.uuid, to)
    call.notify(f"life:{event.uuid}", f"child:{to}")


@due(
    at=lambda ledger: None if (at := ledger.lives.oldest_end()) is None else at + KEPT,
    topics=frozenset({"life"}),
)
def forget_ends(call: Call) -> Record[ForgottenEnds]:
    """Delete the ends that are older than a day."""
    return Record(ForgottenEnds(ends=call.ledger.lives.prune_ends(call.now - KEPT)), audited=True)
