"""How children ended: kept, told to the parent, and waited for (rows K7 and K10)."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from hive_core.broker.call import Call, Record, Wait
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, when
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.broker.timers import due
from hive_core.errors import NotAllowed, NotFound
from hive_core.model.agents.agent import AfterTask
from hive_core.model.agents.exits import DESTROYED, ExitRecord, has_unreported_exit
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.roles import after_task
from hive_core.model.wire.record import OPERATOR
from hive_core.operations.fields import WAIT_MOST, Agent
from hive_core.operations.lifecycle.activity import update_activity
from hive_core.operations.lifecycle.exit_notices import EXIT
from hive_core.operations.notices import tell
from hive_core.policy.relationship import NOBODY, STRANGER, UNSEEN, relationship
from hive_core.policy.rules import SELF

KEPT: Final = 86_400.0
_BODY_MOST: Final = 16_384
_OVER: Final = frozenset({State.STOPPED, State.FAILED, State.PARKED, State.ABSENT})


class WaitChildParams(Mutation):
    agent: Agent | None = Field(
        None, description="A child, by name; its UUID when it is gone. Absent: any child."
    )
    wait: float = Field(WAIT_MOST, ge=0, le=WAIT_MOST, description="Seconds to wait at most.")


class ChildEnd(Result):
    name: str = Field(description="Its name at that time.")
    uuid: str = Field(description="The identity.")
    code: int | None = Field(
        description="Its exit status; null where there is none. 255 may also be a signal."
    )
    clean: bool = Field(description="Whether it ended with 0.")
    asked: bool = Field(description="Whether somebody wanted this end, such as by a stop.")
    reason: str = Field(description="How it ended, or why somebody wanted it.")
    output: str = Field(description="Its last lines; empty for who was stopped by somebody.")
    ended_at: float = Field(description="Seconds since 1970.")
    reaped: bool = Field(description="Whether it is gone with this, being there for one task.")


class WaitedChild(Result):
    child: ChildEnd | None = Field(description="How it ended; null: none did in this time.")


class ForgottenEnds(Result):
    """How many ends."""

    ends: int


@operation(action="work", allow=SELF)
def wait_child(call: Call, params: WaitChildParams) -> Record[WaitedChild] | Wait[WaitedChild]:
    """Wait until a child of the caller has ended for good, and learn how; each end is told once.

    Sleep, a restart and a crash after which it comes back are no such end. A one-shot child (role
    `task`, or `after_task` exits) is gone from the tree with this; how it ended can be asked for a
    day, also when it was cleared away before. Asked again it is NotFound.
    """
    child = None if params.agent is None else _child_uuid(call, params.agent)
    found = next((end for end in call.ledger.lives.uncollected(call.uuid, child)), None)
    if found is None:
        awaited = _awaited_children(call, child, params.agent)
        topics = frozenset({f"child:{call.uuid}", *(f"state:{uuid}" for uuid in awaited)})
        return Wait(topics, call.now + params.wait, WaitedChild(child=None))
    reaped = found.reap is not None
    call.ledger.lives.collect(found, call.now, reap=reaped)
    return Record(
        WaitedChild(child=_child_end(found, reaped=reaped)), frozenset({f"life:{found.agent}"}),
        {"agent": found.name, "uuid": found.agent},
    )  # fmt: skip


def _child_end(end: ExitRecord, *, reaped: bool) -> ChildEnd:
    return ChildEnd(
        name=end.name, uuid=end.agent, code=end.code, clean=end.clean, asked=end.asked,
        reason=end.reason, output=end.output, ended_at=end.at, reaped=reaped,
    )  # fmt: skip


def _child_uuid(call: Call, name: str) -> str:
    """The UUID of a child of the caller, living or gone."""
    if name in call.hive.specs:
        parent = call.hive.topology.parent(name)
        if (OPERATOR if parent is None else parent) == call.caller:
            return call.hive.spec(name).id
        if relationship(call.hive, call.caller, name) not in (NOBODY, UNSEEN, STRANGER):
            raise NotAllowed(f"cannot wait for {name}: not your child", rule="parent")
    gone = call.ledger.lives.uncollected(call.uuid)
    found = next((end.agent for end in gone if name in (end.name, end.agent)), None)
    if found is None:
        raise NotFound(f"cannot wait for {name[:64]}: no child of yours, and no end of it is kept")
    return found


def _awaited_children(call: Call, child: str | None, name: str | None) -> list[str]:
    """The UUIDs of those of whom an end can come; nobody waits where there are none."""
    tree = call.hive.topology
    names = tree.roots if call.by_operator else tree.children(call.caller)
    uuids = [call.hive.spec(each).id for each in names] if child is None else [child]
    found = [uuid for uuid in uuids if _can_end(call, uuid)]
    if found:
        return found
    if child is None:
        raise NotFound("no child of yours runs, and no end waits for you")
    raise NotFound(f"no end of {name} waits for you: it does not run, and its last was told")


def _can_end(call: Call, uuid: str) -> bool:
    if call.hive.name(uuid) is None:
        return False
    starts = call.ledger.starts.get(uuid)
    tried = call.states.state(uuid) is State.FAILED and starts is not None and starts.returns
    over = call.states.state(uuid) in _OVER and not tried
    life, machine = call.ledger.lives.get(uuid), call.states.machine(uuid)
    return life.up or not over or (machine is not None and has_unreported_exit(life, machine))


@when(AgentStarted)
def _settle_earlier_ends(call: Call, what: AgentStarted) -> frozenset[str]:
    """Whoever runs again is nobody's zombie."""
    call.ledger.lives.settle_ends(what.uuid, call.now)
    call.ledger.messages.starts_anew(what.uuid)
    return update_activity(call, what.uuid) | {f"life:{what.uuid}"}


@when(AgentEnded)
def _save_end(call: Call, what: AgentEnded) -> frozenset[str]:
    """Keep how it ended, for its parent; one that was there for one task is a zombie now."""
    stays = not what.returns and what.wanted != DesiredState.SLEEPING
    once = after_task(call.hive.spec(what.name)) is AfterTask.EXITS
    parent = call.hive.topology.parent(what.name)
    to = OPERATOR if parent is None else call.hive.spec(parent).id
    end = ExitRecord(
        0, what.uuid, what.name, to, str(what.fields.get("invocation", "")),
        int(str(what.fields.get("nonce", 0))), what.code, what.reason, what.clean, what.asked,
        what.wanted, stays, str(what.fields.get("output", "")), call.now,
        reap=call.now + call.settings.life.reap if stays and once else None,
        collected=None if stays else call.now,
    )  # fmt: skip
    if not call.ledger.lives.save_end(end):
        return frozenset()
    topics = frozenset({f"life:{what.uuid}", f"child:{to}"})
    if stays and what.clean and not what.asked and parent is not None:
        topics |= _tell_parent(call, parent, end)
    return topics


def _tell_parent(call: Call, parent: str, end: ExitRecord) -> frozenset[str]:
    """A crash is told with its own kind of message (row H23); this is a good end."""
    text = f"{end.name} {end.reason}"
    body = f"{text}\n\nlast lines:\n{end.output}" if end.output else text
    return tell(call, call.hive, parent, EXIT, body[:_BODY_MOST])


@when(AgentDestroyed)
def _save_destruction(call: Call, what: AgentDestroyed) -> frozenset[str]:
    """Destroyed while it ran: that is its end. Its own children are its parent's to ask for."""
    lives, life = call.ledger.lives, call.ledger.lives.get(what.uuid)
    parent = call.hive.topology.parent(what.name)
    to = OPERATOR if parent is None else call.hive.spec(parent).id
    if life.up:
        lives.save_end(ExitRecord(
            0, what.uuid, what.name, to, life.invocation, life.nonce, None, DESTROYED, clean=False,
            asked=True, wanted=DESTROYED, stays=True, output="", at=call.now,
        ))  # fmt: skip
    lives.forget_life(what.uuid)
    call.ledger.messages.starts_anew(what.uuid)
    lives.reassign_ends(what.uuid, to)
    return frozenset({f"life:{what.uuid}", f"child:{to}"})


@due(
    at=lambda ledger: None if (at := ledger.lives.oldest_end()) is None else at + KEPT,
    topics=frozenset({"life"}),
)
def forget_ends(call: Call) -> Record[ForgottenEnds]:
    """How somebody ended is kept for a day."""
    found = call.ledger.lives.prune_ends(call.now - KEPT)
    return Record(ForgottenEnds(ends=found), audited=True)
