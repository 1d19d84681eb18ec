"""T: which tools an agent has, by its role, its profile, its phase and its capabilities.

A tool is an operation of the broker under its own name, or a tool of execution. Models see the
tools of their agent and no others. A tool that is in no row belongs to no agent: mail, leases, the
clocks of tasks and usage are the work of the session, which calls these operations itself.

The table is narrower than the rules of the operations and never wider: the broker judges every
call by place, role and capability, whatever a model was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.capability import covers
from hive_core.model.agents.phase import QueenPhase, tools_in_phase
from hive_core.model.work.tools import TOOLS

_EVERY: Final = frozenset(Role)
_MANAGERS: Final = frozenset({Role.DAEMON, Role.AGENT, Role.LEAD})
# Those that answer for a part of the tree as long as it exists.
_KEEPERS: Final = frozenset({Role.DAEMON, Role.AGENT})
_WORKERS: Final = frozenset({Role.WORKER, Role.TASK})
_WORKER: Final = frozenset({Role.WORKER})
_ANY_PROFILE: Final = frozenset({None, *Profile})
_NOT_MAID: Final = frozenset({None, Profile.QUEEN})
_MAID: Final = frozenset({Profile.MAID})
_QUEEN: Final = frozenset({Profile.QUEEN})
_DAEMON: Final = frozenset({Role.DAEMON})


@dataclass(frozen=True, slots=True)
class ToolsetRule:
    """Tools that the agents of these roles and profiles have, if they hold the capability."""

    tools: tuple[str, ...]
    roles: frozenset[Role]
    capability: str = ""
    profiles: frozenset[Profile | None] = _ANY_PROFILE

    def applies_to(self, role: Role, profile: Profile | None, held: tuple[str, ...]) -> bool:
        """Whether such an agent has these tools."""
        has_capability = not self.capability or covers(held, self.capability)
        return role in self.roles and profile in self.profiles and has_capability


# For the agents below: what they ask, plan and cost.
_PARTS: Final = (
    "wait_for", "cancel_task", "get_plan", "approve_plan", "reject_plan", "judge_task",
    "list_questions", "answer", "relay_question",
)  # fmt: skip

TABLE: Final[tuple[ToolsetRule, ...]] = (
    ToolsetRule(("read", "list", "search"), _WORKERS | {Role.ARCHITECT}),
    ToolsetRule(("edit", "undo", "bash"), _WORKERS),
    # A queen executes what her phase says; other managers execute nothing (row T1).
    ToolsetRule(("read", "list", "search", "edit", "undo", "bash"), _DAEMON, profiles=_QUEEN),
    # Instructions of its configuration; a session without skills does not show it.
    ToolsetRule(("read_skill",), _EVERY),
    # Its own tasks.
    ToolsetRule(
        ("get_task", "create_plan", "update_plan_step", "report_progress", "finish_task"), _EVERY
    ),
    # Mail and questions.
    ToolsetRule(("send", "ask", "whoami"), _EVERY),
    ToolsetRule(("ask_user",), _DAEMON, profiles=_QUEEN),
    ToolsetRule(("escalate", "report_expired_credential"), _EVERY, "escalate"),
    ToolsetRule(("list_agents", "remind", "follow_topic", "unfollow_topic"), _EVERY - {Role.TASK}),
    ToolsetRule(("publish",), _MANAGERS, profiles=_NOT_MAID),
    # Contents that outlive it.
    ToolsetRule(("get_artifact", "list_artifacts"), _EVERY),
    ToolsetRule(("store_artifact",), _EVERY - {Role.TASK}, "artifact.write"),
    ToolsetRule(("delete_artifact",), _MANAGERS, "artifact.write"),
    ToolsetRule(("request_apply_commit",), _EVERY, "config.propose"),
    # Helpers in its own container.
    ToolsetRule(("hive_fork_subagent",), _EVERY, "subagents"),
    # New agents; those of a worker have the role task.
    ToolsetRule(("spawn_agent_and_assign_task",), _MANAGERS | _WORKER, "spawn"),
    ToolsetRule(("spawn", "list_definitions"), _MANAGERS, "spawn", _NOT_MAID),
    # The agents below it.
    ToolsetRule(_PARTS, _WORKER, "spawn"),
    ToolsetRule(_PARTS, _MANAGERS, profiles=_NOT_MAID),
    ToolsetRule(
        ("assign_task", "run_parallel_workers", "get_batch", "list_tasks", "resume_task",
         "inject_message", "get_worker_status", "stop_work", "start", "stop", "restart", "sleep",
         "resume", "destroy"),
        _MANAGERS, profiles=_NOT_MAID,
    ),
    ToolsetRule(("get_logs", "get_usage", "loose_ends", "cancel_reminder"), _MANAGERS),
    ToolsetRule(("kill",), _MANAGERS, "kill", _NOT_MAID),
    ToolsetRule(("allocate_budget", "fund_task"), _MANAGERS, "budget", _NOT_MAID),
    ToolsetRule(
        ("set_trigger", "remove_trigger", "list_triggers"),
        _MANAGERS, "trigger", _NOT_MAID,
    ),
    ToolsetRule(("move", "update"), _KEEPERS, profiles=_NOT_MAID),
    ToolsetRule(("request_update_meta_inputs",), _KEEPERS, "meta.update", _NOT_MAID),
    # The colony of a queen.
    ToolsetRule(
        ("run_agent_with_input", "stop_worker", "switch_to_reviewing", "list_credentials"),
        _DAEMON, profiles=_QUEEN,
    ),
    ToolsetRule(("create_colony",), _DAEMON, "spawn", _QUEEN),
    # Cleaning up.
    ToolsetRule(("survey", "reap_zombies"), _DAEMON, profiles=_MAID),
)  # fmt: skip

# Stands for the tools of the agent's own MCP servers, which its model sees under their names.
SERVER_TOOLS: Final = ToolsetRule(("mcp",), _WORKERS)

# Parameters that a model is not shown: they describe machines and programs. An agent that needs
# them sets them in a definition, or calls `spawn`.
_OF_MACHINES: Final = frozenset({
    "image", "boot", "command", "limits", "subtree", "network", "max_children", "max_depth",
    "after_task", "wakes", "parallel", "funds", "caps", "title", "patience", "thread", "profile",
})  # fmt: skip
# The session fills them in: a model could choose another message than the one it works on.
_OF_SESSION: Final = frozenset({"in_turn_of"})
HIDDEN_PARAMETERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "spawn_agent_and_assign_task": _OF_MACHINES | _OF_SESSION,
        "spawn": frozenset({"profile"}),  # only the operator sets it
        "finish_task": frozenset({"tokens", "cost"}),  # the daemon measures them
        "publish": _OF_SESSION,
        "run_agent_with_input": _OF_SESSION | {"agent"},
        "stop_worker": frozenset({"agent"}),
        "judge_task": frozenset({"attempt", "by_model"}),  # the session says so
        "create_colony": frozenset(
            {
                "skill",
                "source_conversation",
                "source_turn",
                "segment",
                "segment_sha256",
                "skill_files",
                "skill_files_sha256",
            }
        ),
        "assign_task": _OF_SESSION,
        "run_parallel_workers": _OF_SESSION,
        "send": _OF_SESSION | {"reply_within"},  # for a program that blocks until the answer comes
    }
)


def toolset(
    role: Role,
    profile: Profile | None = None,
    capabilities: Iterable[str] = (),
    phase: QueenPhase = QueenPhase.INDEPENDENT,
) -> tuple[str, ...]:
    """The tools of such an agent, in the order of the table; `phase` is that of a queen."""
    held = tuple(capabilities)
    tools = (tool for row in TABLE if row.applies_to(role, profile, held) for tool in row.tools)
    return tools_in_phase(phase, tools) if profile is Profile.QUEEN else tuple(tools)


def execution_tools(
    role: Role, profile: Profile | None = None, phase: QueenPhase = QueenPhase.INDEPENDENT
) -> tuple[str, ...]:
    """The tools of execution of an agent, by name; no capability adds one."""
    names = [name for name in toolset(role, profile, (), phase) if name in TOOLS]
    servers = SERVER_TOOLS.tools if SERVER_TOOLS.applies_to(role, profile, ()) else ()
    return tuple(sorted((*names, *servers)))


def tools_of_table() -> Iterator[str]:
    """Every tool that the model of some agent can see, but those of its own servers."""
    return (tool for row in TABLE for tool in row.tools)
