"""Agents that are gone keep what they used: under their own names first, then all in one line.

What is shown stays as short as the tree that lives, however many were made for one task each.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentStarted, when
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


def start_rollup(call: Call, uuid: str, name: str) -> frozenset[str]:
    """It is no more: what it used stays, where it hung."""
    parent, brief = next(ancestors(call.hive, uuid), ""), call.hive.spec(name).role is Role.TASK
    call.ledger.budgets.rollups.add(DestroyedAgent(uuid, name, parent, brief), call.now)
    return frozenset({f"{DEPARTED}:{uuid}"})


@when(AgentStarted)
def _cancel_rollup(call: Call, what: AgentStarted) -> frozenset[str]:
    call.ledger.budgets.rollups.remove(what.uuid)
    return frozenset()


@due(at=lambda ledger: ledger.budgets.rollups.next_due(), topics=frozenset({DEPARTED}))
def roll_up_usage(call: Call) -> Record[Result]:
    """Some of those who have been gone for long enough lose the line of their own."""
    budgets = call.ledger.budgets
    if 0 <= call.now - call.states.since() < SETTLED:
        # What ended while no daemon ran has to be seen first: its last figure counts for it.
        budgets.rollups.pause_until(call.states.since() + SETTLED)
        return Record(Result(), audited=True)
    budgets.usage.seal(now=True)  # what was counted of them in memory comes along
    moved = 0
    for gone in budgets.rollups.due(call.now, AT_ONCE):
        moved += _fold(call, gone)
        if moved > ROWS:
            break
    return Record(Result(), audited=True)


def _fold(call: Call, gone: DestroyedAgent) -> int:
    budgets, machine = call.ledger.budgets, call.states.machine(gone.agent)
    if call.hive.name(gone.agent) is not None:
        budgets.rollups.remove(gone.agent)  # restored
        return 0
    if machine is not None and phase(machine) is not Phase.DOWN:
        budgets.rollups.put_off(gone.agent, call.now)
        return 0
    moved = budgets.rollups.fold(gone)
    if budgets.rollups.get(gone.agent) is None:
        budgets.cpu.forget(gone.agent)  # not before: the record of its end may still lie there
    return moved


class UsageTree:
    """Where everybody hangs, also those who are no more: there where they hung last."""

    def __init__(self, call: Call) -> None:
        self._hive = call.hive
        self._departed = call.ledger.budgets.rollups
        self._gone: dict[str, DestroyedAgent | None] = {}
        self._chains: dict[str, tuple[str, ...]] = {}

    def lineage(self, uuid: str) -> tuple[str, ...]:
        """The agent and its ancestors."""
        if uuid not in self._chains:
            above_it = self._parent(uuid)
            self._chains[uuid] = (uuid, *(self.lineage(above_it) if above_it else ()))
        return self._chains[uuid]

    def below(self, uuid: str) -> set[str]:
        """The agent, all below it, those who are gone, and the words for what is added up."""
        names = self._hive.topology.subtree(self._hive.names[uuid])
        found = {self._hive.spec(each).id for each in names}
        level = found
        while level:
            hung = self._departed.below(level)
            level = {each for each in hung if self._hive.name(each) is None} - found
            found = found | level
        return found | {children_key(each) for each in found}

    def name(self, uuid: str) -> str:
        """For people; of those who are no more with a mark."""
        living = self._hive.name(uuid)
        if living is not None:
            return living
        parent = parent_in_key(uuid)
        if parent is not None:
            return f"(gone children of {self.name(parent)})" if parent else "(gone)"
        found = self._destroyed_agent(uuid)
        return f"{found.name} ({uuid[:8]}, gone)" if found is not None else uuid

    def _parent(self, uuid: str) -> str:
        name, parent = self._hive.name(uuid), parent_in_key(uuid)
        if name is not None:
            above_it = self._hive.topology.parent(name)
            return self._hive.spec(above_it).id if above_it else ""
        if parent is not None:
            return parent
        found = self._destroyed_agent(uuid)
        return found.parent if found is not None else ""

    def _destroyed_agent(self, uuid: str) -> DestroyedAgent | None:
        if uuid not in self._gone:
            self._gone[uuid] = self._departed.get(uuid)
        return self._gone[uuid]
