"""Quarantine of a subtree: holds its outgoing mail, tools and model calls (attack 44)."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, on
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.broker.quarantine import RULE, TOPIC, quarantine_holder, quarantine_reason
from hive_core.errors import Conflict, NotAllowed
from hive_core.ledger.agents.quarantines import Quarantine
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.machine import State
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.fields import Agent, Reason
from hive_core.operations.notices import send_notice
from hive_core.operations.tasks.offers import offer_next_tasks
from hive_core.policy.rules import ANCESTOR, OPERATOR

QUARANTINE = "quarantine"
_UP = frozenset({State.RUNNING, State.STARTING})


class QuarantineParams(Mutation):
    agent: Agent = Field(description="The agent to hold, with all its descendants.")
    reason: Reason = Field("", description="Reason, which the agents and their parent are shown.")


class LiftQuarantineParams(Mutation):
    agent: Agent = Field(description="The agent whose quarantine ends.")


class Quarantined(Result):
    agent: str = Field(description="The agent.")
    agents: int = Field(description="Number of agents that its quarantine holds, with itself.")


class Lifted(Result):
    agent: str = Field(description="The agent.")
    agents: int = Field(description="Number of agents that no quarantine holds any longer.")


class QuarantineRow(Result):
    agent: str = Field(description="The agent that is held, with all its descendants.")
    agents: int = Field(description="Number of agents that are held, with itself.")
    by: str = Field(description="The agent that asked for it, or `operator`.")
    reason: str = Field(description="The reason.")
    since: float = Field(description="Since when, in seconds since 1970.")


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", urgent=True)
def quarantine(call: Call, params: QuarantineParams) -> Record[Quarantined]:
    """Hold an agent and its descendants: no mail, tools, tasks, reports or model calls leave them.

    Their machines run on. They can read, receive, and end what they began. Only the operator lifts
    a quarantine (`lift_quarantine`). It outlives restarts of the daemon and moves of the agent.
    """
    spec = call.hive.spec(params.agent)
    row = Quarantine(spec.id, call.uuid, params.reason, call.now)
    call.ledger.quarantines.add(row)
    call.notify(TOPIC)
    _tell_parent(call, params.agent, "is in quarantine", params.reason)
    held = len(call.hive.topology.subtree(params.agent))
    fields = {"reason": params.reason, "agents": held}
    return Record(Quarantined(agent=params.agent, agents=held), fields=fields)


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of", urgent=True)
def lift_quarantine(call: Call, params: LiftQuarantineParams) -> Record[Lifted]:
    """End the quarantine of an agent. Its running descendants are told, and offered their tasks.

    Agents that another quarantine holds stay held.
    """
    uuid = call.hive.spec(params.agent).id
    if call.ledger.quarantines.get(uuid) is None:
        holder = quarantine_holder(call, uuid)
        hint = f"; the quarantine of {holder} holds it" if holder else ""
        raise Conflict(f"cannot lift the quarantine of {params.agent}: it has none{hint}")
    call.ledger.quarantines.delete(uuid)
    call.notify(TOPIC)
    free = [one for one in _uuids_below(call, params.agent) if not quarantine_holder(call, one)]
    for one in free:
        name = call.hive.names[one]
        if call.states.state(one) in _UP:
            send_notice(call, call.hive, name, QUARANTINE, f"the quarantine of {params.agent} is"
                        " over: what was refused for it can be tried again")  # fmt: skip
        offer_next_tasks(call, one)
    _tell_parent(call, params.agent, "is no longer in quarantine", "")
    return Record(Lifted(agent=params.agent, agents=len(free)), fields={"agents": len(free)})


@on(AgentDestroyed)
def hold_children_of_destroyed_agent(call: Call, event: AgentDestroyed) -> None:
    """Hold the children of a destroyed agent, which move up to its parent, on their own."""
    row = call.ledger.quarantines.get(event.uuid)
    for child in call.hive.topology.children(event.name) if row else ():
        _hold_alone(call, call.hive.spec(child).id, event.name)


def hold_after_move(call: Call, hive: Hive, agent: str) -> None:
    """Hold an agent that a move takes out of a held subtree; `hive` is the tree after it."""
    uuid = call.hive.spec(agent).id
    holder = quarantine_holder(call, uuid)
    if holder and not quarantine_holder(call, uuid, hive):
        _hold_alone(call, uuid, holder)


def check_quarantine_of(call: Call, uuid: str, verb: str) -> None:
    """Raise NotAllowed when a quarantine holds this agent: `cannot VERB: ...`."""
    if holder := quarantine_holder(call, uuid):
        reason = quarantine_reason(call.hive.names[uuid], holder)
        raise NotAllowed(f"cannot {verb}: {reason}", rule=RULE)


def check_quarantine(call: Call, verb: str) -> None:
    """Raise NotAllowed when a quarantine holds the caller."""
    check_quarantine_of(call, call.uuid, verb)


def quarantine_rows(call: Call) -> Iterator[QuarantineRow]:
    """The quarantines of agents that are not destroyed, the oldest first."""
    for row in call.ledger.quarantines.all() if call.ledger.quarantines.agents else ():
        name = call.hive.name(row.agent)
        if name is not None:
            yield QuarantineRow(
                agent=name, agents=len(call.hive.topology.subtree(name)),
                by=display_name(call, row.by), reason=row.reason, since=row.since,
            )  # fmt: skip


def _hold_alone(call: Call, uuid: str, holder: str) -> None:
    if uuid not in call.ledger.quarantines.agents:
        reason = f"it was below {holder}, which was in quarantine"
        call.ledger.quarantines.add(Quarantine(uuid, call.uuid, reason, call.now))


def _uuids_below(call: Call, agent: str) -> list[str]:
    """The agent and its descendants."""
    return [call.hive.spec(name).id for name in call.hive.topology.subtree(agent)]


def _tell_parent(call: Call, agent: str, state: str, reason: str) -> None:
    parent = call.hive.topology.parent(agent)
    if parent is not None and parent != call.caller:
        why = f": {reason}" if reason else ""
        send_notice(call, call.hive, parent, QUARANTINE, f"{agent} {state}{why}")
