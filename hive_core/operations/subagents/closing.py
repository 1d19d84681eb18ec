"""The end of sub-agents: on request, at their deadline, with their agent, or with the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hive_core.broker.call import Call, Record
from hive_core.broker.hooks import AgentDestroyed, AgentEnded, AgentStarted, on
from hive_core.broker.operation import Result
from hive_core.broker.timers import due
from hive_core.ledger.audit.events import AuditEntry
from hive_core.model.agents.subagent import SubAgent
from hive_core.model.wire.record import DAEMON
from hive_core.operations.notices import inbox, senders

# The kind of their events, and of the topics of agents whose sub-agents changed.
EVENT: Final = "subagent"
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class SubAgentEnd:
    """How a sub-agent ended, and why."""

    status: str
    reason: str = ""

    @property
    def fields(self) -> Mapping[str, object]:
        """Fields of its event."""
        return {"status": self.status, "why": self.reason}


DEADLINE: Final = SubAgentEnd("timeout", "its deadline has passed")
RESTARTED: Final = SubAgentEnd("cancelled", "the daemon was restarted")
AGENT_ENDED: Final = SubAgentEnd("cancelled", "its agent has ended")
PARENT_ENDED: Final = SubAgentEnd("cancelled", "its parent was closed")


def close_tree(call: Call, sub: SubAgent, end: SubAgentEnd, *, records_first: bool = True) -> None:
    """Close a sub-agent and all that it opened, directly or not. Each has its event."""
    for other in call.ledger.subagents.of(sub.agent):
        if other.opener == sub.id:
            close_tree(call, other, PARENT_ENDED)
    _close(call, sub, f"sub-agent {sub.id} was closed: {end.reason or end.status}")
    if records_first:
        _record(call, sub, end)


@due(at=lambda ledger: ledger.subagents.next_end(), topics=frozenset({EVENT}))
def end_subagents(call: Call) -> Record[Result]:
    """Close sub-agents whose deadline has passed, and those of an earlier daemon."""
    store = call.ledger.subagents
    for sub in store.of_earlier_daemons(_AT_ONCE):
        _close(call, sub, RESTARTED.reason)
        _record(call, sub, RESTARTED)
    for sub in store.overdue(call.now, _AT_ONCE):
        if store.get(sub.agent, sub.id) is not None:  # else it was closed with its parent
            close_tree(call, sub, DEADLINE)
    return Record(Result(), audited=True)


@on(AgentStarted)
def _close_at_start(call: Call, event: AgentStarted) -> None:
    _close_all(call, event.uuid)


@on(AgentEnded)
def _close_at_end(call: Call, event: AgentEnded) -> None:
    _close_all(call, event.uuid)


@on(AgentDestroyed)
def _close_of_destroyed(call: Call, event: AgentDestroyed) -> None:
    _close_all(call, event.uuid)
    call.ledger.subagents.forget_agent(event.uuid)


def event_fields(sub: SubAgent) -> dict[str, object]:
    """Fields of every event about a sub-agent."""
    return {
        "sub": sub.id, "sub_kind": sub.kind, "sub_name": sub.name, "opener": sub.opener,
        "uid": sub.uid, "depth": sub.depth, "clone_depth": sub.clone_depth, "task": sub.task,
    }  # fmt: skip


def _close_all(call: Call, agent: str) -> None:
    """Close all sub-agents of an agent."""
    for sub in call.ledger.subagents.of(agent):
        _close(call, sub, AGENT_ENDED.reason)
        _record(call, sub, AGENT_ENDED)


def _close(call: Call, sub: SubAgent, why: str) -> None:
    """End a sub-agent: its calls are answered as those of a closed one, its mail is dead."""
    call.ledger.subagents.delete(sub.id)
    dead = call.ledger.messages.dead_letter(sub.party, why, call.now)
    call.notify(f"{EVENT}:{sub.agent}", inbox(sub.party), *senders(dead))


def _record(call: Call, sub: SubAgent, end: SubAgentEnd) -> None:
    """Record an end that no call asked for, with what the sub-agent used so far."""
    used = call.ledger.models.use_of_subagent(sub.id)._asdict()
    name = call.hive.name(sub.agent) or ""
    fields = {"target_name": name, **event_fields(sub), **end.fields, **used}
    call.ledger.events.append(
        AuditEntry(
            EVENT, DAEMON, "close_subagent", sub.agent, None, "", end.reason, call.hive.commit,
            call.request, call.now, {key: value for key, value in fields.items() if value},
        )
    )  # fmt: skip
    call.notify("events")
