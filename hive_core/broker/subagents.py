"""What a sub-agent may ask of the daemon.

It has its own mail, messages to its parent, and its tools. What its tools do is judged as a call of
its agent, so it can never do more than the agent at this time.
"""

from __future__ import annotations

from typing import Final

from hive_core.broker.call import Call
from hive_core.broker.operation import Operation
from hive_core.errors import NotFound
from hive_core.ledger.subagents.storage import SubAgentStore
from hive_core.model.agents.capability import covers
from hive_core.model.agents.roles import Action
from hive_core.model.agents.subagent import (
    CAPABILITY,
    FORK_TOOL,
    SubAgent,
    split_address,
)
from hive_core.policy.algebra import Decision

RULE: Final = "subagent"
_READ_SKILL: Final = "read_skill"
SEND: Final = "send"
# Of every sub-agent, whatever its tools are. A use of a tool needs the tool (operations/tools).
OWN: Final = frozenset({
    "recv", "ack", "nack", "wait_reply", "list_messages", "whoami", "list_toolset", "list_models",
    "use_tool", "end_tool",
})  # fmt: skip
# With the tool that forks.
FORKS: Final = frozenset({"open_subagent", "close_subagent"})
# With the tool that reads skills.
SKILLS: Final = frozenset({"get_prompts", "get_skill"})
# Only the agent itself talks to others, plans ahead, and ends its task; also where a clone has the
# tool: it has those of its agent, so that their requests have the same beginning.
AGENT_ACTIONS: Final = frozenset[Action]({"send", "escalate", "schedule"})
AGENT_OPERATIONS: Final = frozenset({"finish_task", "wait_for"})
_ALLOWED: Final = Decision(allowed=True, rule=RULE, reason="")


def require_subagent(store: SubAgentStore, agent: str, id_: str, now: float) -> SubAgent:
    """The open sub-agent whose socket it is; NotFound once it was closed."""
    sub = store.get(agent, id_)
    if sub is None or sub.deadline <= now:
        raise NotFound(f"sub-agent {id_} is closed")
    return sub


def subagent_decision(call: Call, operation: Operation, target: str | None) -> Decision | None:
    """The decision on a call of a sub-agent, or on mail to one; None: judge it as its agent."""
    may_write = operation.name == SEND and _may_write(call, target or "")
    if call.sub is None:
        return _ALLOWED if may_write else None
    reason = ""
    if not covers(call.hive.spec(call.caller).capabilities, CAPABILITY):
        reason = f"{call.caller} no longer holds the capability {CAPABILITY}"
    elif may_write:
        return _ALLOWED
    elif operation.name == SEND:
        reason = "a sub-agent talks to its parent only"
    elif operation.action in AGENT_ACTIONS or operation.name in AGENT_OPERATIONS:
        reason = "only the agent itself may do this, not a sub-agent"
    elif not _has_operation(call.sub, operation):
        reason = "it is none of the tools of this sub-agent"
    return Decision.denial(RULE, reason) if reason else None


def _may_write(call: Call, to: str) -> bool:
    """Whether the recipient is the parent of the calling sub-agent, or a sub-agent of the caller.

    The agent itself may write to all of its sub-agents; a sub-agent to those that it opened.
    """
    name, id_ = split_address(to)
    if name != call.caller:
        return False
    if call.sub is not None and id_ == call.sub.opener:
        return True
    other = call.ledger.subagents.get(call.uuid, id_) if id_ else None
    return other is not None and (call.sub is None or other.opener == call.sub.id)


def _has_operation(sub: SubAgent, operation: Operation) -> bool:
    if operation.name in FORKS:
        return FORK_TOOL in sub.tools
    if operation.name in SKILLS:
        return _READ_SKILL in sub.tools
    return operation.name in OWN or operation.name in sub.tools
