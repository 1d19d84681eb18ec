"""The usage of destroyed agents: first one line each, later one line for all siblings.

So a listing stays as short as the living tree, however many short-lived agents there were.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentStarted, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.budgets.usage_rollup import (
    SETTLED,
    DestroyedAgent,
    children_key,
    parent_in_key,
)
from hive_core.model.agents.agent import Role
from hive_core.operations.budgets.payer_budget import ancestors
from hive_core.plan.state import Phase, phase

DEPARTED: Final = "departed"
AT_ONCE: Final = 64
ROWS: Final = 1000


def start_rollup(call: Call, uuid: str, name: str) -> None:
    """Record the last place of a destroyed agent: its usage counts there."""
    parent, brief = next(ancestors(call.hive, uuid), ""), call.hive.spec(name).role is Role.TASK
    call.ledger.budgets.rollups.add(DestroyedAgent(uuid, name, parent, brief), call.now)
    call.notify(f"{DEPARTED}:{uuid}")


@on(AgentStarted)
def _cancel_rollup(call: Call, event: AgentStarted) -> None:
    """Keep the usage of a restored agent under its own name."""
    call.ledger.budgets.rollups.remove(event.uuid)


@due(at=lambda ledger: ledger.budgets.rollups.next_due(), topics=frozenset({DEPARTED}))
def roll_up_usage(call: Call) -> Record[Result]:
    """Add the usage of some agents that were destroyed long ago to the line of their siblings."""
    budgets = call.ledger.budgets
    if 0 <= call.now - call.states.since() < SETTLED:
        # First settle machines that ended while no daemon ran: their last figures count.
        budgets.rollups.pause_until(call.states.since() + SETTLED)
        return Record(Result(), audited=True)
    budgets.usage.flush(now=True)  # also moves counts in memory
    moved = 0
    for agent in budgets.rollups.due(call.now, AT_ONCE):
        moved += _fold(call, agent)
        if moved > ROWS:
            break
    return Record(Result(), audited=True)


def _fold(call: Call, agent: DestroyedAgent) -> int:
    budgets, machine = call.ledger.budgets, call.states.machine(agent.agent)
    if call.hive.name(agent.agent) is not None:
        budgets.rollups.remove(agent.agent)  # restored
        return 0
    if machine is not None and phase(machine) is not Phase.DOWN:
        budgets.rollups.put_off(agent.agent, call.now)
        return 0
    moved = budgets.rollups.fold(agent)
    if budgets.rollups.get(agent.agent) is None:
        budgets.cpu.forget(agent.agent)  # not before: the record of its end may still be unread
    return moved


class UsageTree:
    """The tree in which usage counts: living agents, and destroyed agents at their last place."""

    def __init__(self, call: Call) -> None:
        self._hive = call.hive
        self._rollups = call.ledger.budgets.rollups
        self._destroyed: dict[str, DestroyedAgent | None] = {}
        self._lineages: dict[str, tuple[str, ...]] = {}

    def lineage(self, uuid: str) -> tuple[str, ...]:
        """The agent and its ancestors."""
        if uuid not in self._lineages:
            parent = self._parent(uuid)
            self._lineages[uuid] = (uuid, *(self.lineage(parent) if parent else ()))
        return self._lineages[uuid]

    def below(self, uuid: str) -> set[str]:
        """The agent, its living and destroyed descendants, and the keys of summed-up children."""
        names = self._hive.topology.subtree(self._hive.names[uuid])
        agents = {self._hive.spec(name).id for name in names}
        level = agents
        while level:
            children = self._rollups.below(level)
            level = {child for child in children if self._hive.name(child) is None} - agents
            agents = agents | level
        return agents | {children_key(agent) for agent in agents}

    def name(self, uuid: str) -> str:
        """The name for people; destroyed agents have a mark."""
        living = self._hive.name(uuid)
        if living is not None:
            return living
        parent = parent_in_key(uuid)
        if parent is not None:
            return f"(gone children of {self.name(parent)})" if parent else "(gone)"
        agent = self._destroyed_agent(uuid)
        return f"{agent.name} ({uuid[:8]}, gone)" if agent is not None else uuid

    def _parent(self, uuid: str) -> str:
        name, parent = self._hive.name(uuid), parent_in_key(uuid)
        if name is not None:
            parent_name = self._hive.topology.parent(name)
            return self._hive.spec(parent_name).id if parent_name else ""
        if parent is not None:
            return parent
        agent = self._destroyed_agent(uuid)
        return agent.parent if agent is not None else ""

    def _destroyed_agent(self, uuid: str) -> DestroyedAgent | None:
        if uuid not in self._destroyed:
            self._destroyed[uuid] = self._rollups.get(uuid)
        return self._destroyed[uuid]
