"""Quarantine: what the agents of a held subtree may not do until the operator lifts it.

Everything that carries their words out, makes others work, or executes: mail, tasks, questions,
new agents, configurations, artifacts, tools, reports. They still read, receive, and end things.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation
from hive_core.model.agents.hive import Hive
from hive_core.model.agents.roles import Action
from hive_core.policy.algebra import Decision

RULE: Final = "quarantine"
TOPIC: Final = "quarantine"  # touched when a quarantine begins or ends
HELD_ACTIONS: Final = frozenset[Action](
    {"send", "escalate", "spawn", "assign", "schedule", "configure", "write_artifact"}
)
# Of the action `work`.
HELD_WORK: Final = frozenset({"use_tool", "finish_task", "create_plan", "open_subagent"})
# Of the held actions, but they only end something or stay with the agent itself.
FREE: Final = frozenset({
    "close_pipe", "close_queue", "cancel_question", "cancel_reminder", "remove_trigger",
    "cancel_task", "delete_artifact", "wake",
})  # fmt: skip


def is_held(operation: Operation) -> bool:
    """Whether a quarantine holds calls of this operation."""
    held = operation.action in HELD_ACTIONS or operation.name in HELD_WORK
    return held and operation.name not in FREE


def quarantine_holder(call: Call, uuid: str, hive: Hive | None = None) -> str:
    """The agent whose quarantine holds this one: itself or the nearest above; empty: none does."""
    return holder_above(call.ledger.quarantines.agents, hive or call.hive, uuid)


def holder_above(agents: Collection[str], hive: Hive, uuid: str) -> str:
    """The same where `agents` are in quarantine."""
    name = hive.name(uuid) if agents else None
    if name is None:
        return ""
    path = (name, *hive.topology.lineage(name))
    return next((above for above in path if hive.spec(above).id in agents), "")


def quarantine_denial(call: Call, operation: Operation) -> Decision | None:
    """The refusal of a call of an agent in quarantine; None: the quarantine does not hold it."""
    if not is_held(operation):
        return None
    holder = quarantine_holder(call, call.uuid)
    return Decision.denial(RULE, quarantine_reason(call.caller, holder)) if holder else None


def quarantine_reason(agent: str, holder: str) -> str:
    """The refusal in words."""
    whose = "it" if agent == holder else f"{holder} above it"
    return f"{agent} is held by a quarantine of {whose}, until the operator lifts that"
