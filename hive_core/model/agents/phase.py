"""The phases of a queen: which tools each has, what her prompt consists of, and how they follow.

One table. A queen without a colony is independent: she does work herself, or gives it out. With a
colony she prepares it (staging), has it work (running), and looks at its results (editing).
A tool that no row of this page names is in no phase.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from hive_core.errors import InvalidArgument


class QueenPhase(StrEnum):
    INDEPENDENT = "independent"
    STAGING = "staging"
    RUNNING = "running"
    EDITING = "editing"


class PhaseCause(StrEnum):
    """The party that moves a queen to another phase."""

    QUEEN = "queen"
    USER = "user"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class PhaseEdge:
    """A legal move, the parties that may cause it, and by what."""

    source: QueenPhase
    target: QueenPhase
    causes: frozenset[PhaseCause]
    by: str


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """`prompts`: the segments of the prompt below prompts/queen, in their order."""

    tools: frozenset[str]
    prompts: tuple[str, ...]


_I, _S = QueenPhase.INDEPENDENT, QueenPhase.STAGING
_R, _E = QueenPhase.RUNNING, QueenPhase.EDITING
_QUEEN, _USER, _SYSTEM = PhaseCause.QUEEN, PhaseCause.USER, PhaseCause.SYSTEM

# Her own tasks, mail and artifacts, and the decisions that those below her wait for (row Q28).
COMMON: Final = frozenset({
    "read_skill", "get_task", "create_plan", "update_plan_step", "report_progress", "finish_task",
    "send", "ask", "ask_user", "whoami", "escalate", "list_agents", "remind", "cancel_reminder",
    "get_artifact", "list_artifacts", "store_artifact", "delete_artifact", "get_batch",
    "list_questions", "answer", "relay_question", "get_plan", "approve_plan", "reject_plan",
    "judge_task", "report_expired_credential",
})  # fmt: skip
_LOOK: Final = frozenset({"read", "list", "search", "bash"})
_TRIGGERS: Final = frozenset({"set_trigger", "remove_trigger", "list_triggers"})
_COLONY: Final = (
    _LOOK | _TRIGGERS | {"list_credentials", "get_worker_status", "run_agent_with_input"}
)
# Of a manager without a colony: what no other phase claims.
MANAGING: Final = frozenset({
    "spawn_agent_and_assign_task", "spawn", "list_definitions", "assign_task", "wait_for",
    "cancel_task", "list_tasks", "resume_task", "stop_work", "start", "stop", "restart", "sleep",
    "resume", "destroy", "kill", "move", "update", "get_logs", "get_usage", "loose_ends",
    "allocate_budget", "fund_task", "follow_topic", "unfollow_topic", "publish",
    "request_apply_commit", "request_update_meta_inputs", "hive_fork_subagent",
})  # fmt: skip
_BASE: Final = ("core", "{phase}/role", "style", "{phase}/tools", "always", "memory",
                "{phase}/behaviour")  # fmt: skip

PHASES: Final[Mapping[QueenPhase, PhaseRow]] = MappingProxyType({
    _I: PhaseRow(
        COMMON | MANAGING | _LOOK | {"edit", "undo", "run_parallel_workers", "create_colony"},
        tuple(part.format(phase=_I) for part in _BASE),
    ),
    _S: PhaseRow(
        COMMON | _COLONY, (*(part.format(phase=_S) for part in _BASE), "worker_profile"),
    ),
    _R: PhaseRow(
        COMMON | _COLONY | {
            "stop_worker", "switch_to_reviewing", "run_parallel_workers", "inject_message",
        },
        (*(part.format(phase=_R) for part in _BASE), "worker_profile"),
    ),
    _E: PhaseRow(
        COMMON | _COLONY | {"inject_message"},
        ("editing/identity", "style", "editing/tools", "always", "memory", "editing/behaviour",
         "worker_profile"),
    ),
})  # fmt: skip

EDGES: Final = (
    PhaseEdge(_I, _S, frozenset({_USER}), "open_colony"),
    PhaseEdge(_S, _R, frozenset({_QUEEN, _USER}), "run_agent_with_input"),
    PhaseEdge(_E, _R, frozenset({_QUEEN, _USER}), "run_agent_with_input"),
    PhaseEdge(_R, _S, frozenset({_QUEEN, _USER}), "stop_worker"),
    PhaseEdge(_R, _E, frozenset({_QUEEN, _SYSTEM}), "switch_to_reviewing"),
    PhaseEdge(_S, _I, frozenset({_USER, _SYSTEM}), "close_colony"),
    PhaseEdge(_R, _I, frozenset({_USER, _SYSTEM}), "close_colony"),
    PhaseEdge(_E, _I, frozenset({_USER, _SYSTEM}), "close_colony"),
)
_EDGES: Final = MappingProxyType({(edge.source, edge.target): edge for edge in EDGES})

# What a program of hers calls that no model is shown, beside what passes in every phase.
_PROGRAMS: Final = frozenset({
    "open_pipe", "write_pipe", "close_pipe", "open_queue", "put", "close_queue", "init_config",
    "quarantine",
})  # fmt: skip
# Actions whose operations pass in every phase unless they are tools of a model: the session
# receives, reports and reads.
_PASSING_ACTIONS: Final = frozenset({"receive", "read", "read_artifact", "work"})
_PASSING: Final = frozenset({
    "begin_artifact", "append_artifact", "wake", "cancel_question", "get_usage", "loose_ends",
    "list_tasks", "list_credentials",
})  # fmt: skip

# For a tool of another phase the one that serves best; the others go by the similarity of names.
_NEAREST: Final = MappingProxyType({
    "assign_task": "run_agent_with_input", "spawn": "run_agent_with_input",
    "spawn_agent_and_assign_task": "run_agent_with_input",
    "run_parallel_workers": "run_agent_with_input", "create_colony": "run_agent_with_input",
    "stop_work": "stop_worker", "stop": "stop_worker", "kill": "stop_worker",
    "cancel_task": "stop_worker", "edit": "bash", "undo": "bash", "list_tasks": "get_worker_status",
    "get_logs": "get_worker_status", "stop_worker": "stop_work",
    "switch_to_reviewing": "get_worker_status", "inject_message": "send",
    "get_worker_status": "list_tasks", "set_trigger": "remind",
    "run_agent_with_input": "spawn_agent_and_assign_task",
})  # fmt: skip
_OLD_NAMES: Final = MappingProxyType({"working": _R, "reviewing": _E})
_WITHOUT_COLONY: Final = frozenset({"planning", "building"})


def phase_of_name(name: str, *, has_colony: bool) -> QueenPhase:
    """The phase of this name, also of one of earlier versions; InvalidArgument for any other."""
    if name in _WITHOUT_COLONY:
        return _S if has_colony else _I
    if name in _OLD_NAMES:
        return _OLD_NAMES[name]
    try:
        return QueenPhase(name)
    except ValueError:
        raise InvalidArgument(
            f"no phase {name[:64]!r}; there are {', '.join(QueenPhase)}", field="phase"
        ) from None


def phase_edge(source: QueenPhase, target: QueenPhase) -> PhaseEdge | None:
    """The edge between these phases; None: there is none."""
    return _EDGES.get((source, target))


def tools_in_phase(phase: QueenPhase, tools: Iterable[str]) -> tuple[str, ...]:
    """Those of the tools that the phase has, in their order."""
    return tuple(tool for tool in tools if tool in PHASES[phase].tools)


def passes_phase(phase: QueenPhase, operation: str, action: str, *, is_tool: bool) -> bool:
    """Whether an agent in this phase may call the operation; `is_tool`: some model has it."""
    if operation in PHASES[phase].tools or operation in _PASSING:
        return True
    if phase is _I and operation in _PROGRAMS:
        return True
    return not is_tool and action in _PASSING_ACTIONS


def nearest_tool(phase: QueenPhase, name: str) -> str:
    """The tool of the phase that serves best in place of another."""
    tools = PHASES[phase].tools
    if _NEAREST.get(name) in tools:
        return _NEAREST[name]
    return difflib.get_close_matches(name, sorted(tools), 1, 0.0)[0]
