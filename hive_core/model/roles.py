"""What each role is by default: whom it may create, what it may do, when it comes back.

One table; policy, reconcile, the reference page and the tests read it. The daemon itself is the
only `kernel`, so that role is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from hive_core.model.agent import AfterTask, AgentSpec, Role, Tier


class Action(StrEnum):
    """What a role may do at all, whatever its place and its capabilities (row K26)."""

    SPAWN = "spawn"
    KILL = "kill"
    ASSIGN = "assign"
    SEND = "send"
    READ = "read"
    READ_ARTIFACT = "read_artifact"
    WRITE_ARTIFACT = "write_artifact"
    ESCALATE = "escalate"


# What each of them is about. What is in no row an agent does to itself (and, where its place lets
# it, below itself), or it is the operator's.
OPERATIONS: Final[Mapping[Action, tuple[str, ...]]] = MappingProxyType({
    Action.SPAWN: ("spawn", "spawn_agent_and_assign_task"),
    Action.KILL: (
        "destroy", "kill", "move", "restart", "resume", "sleep", "start", "stop", "update",
    ),
    Action.ASSIGN: (
        "allocate_budget", "approve_plan", "assign_task", "cancel_task", "fund_task",
        "reject_plan", "resume_task", "run_parallel_workers",
    ),
    Action.SEND: ("inject_message", "open_pipe", "publish", "put", "send", "write_pipe"),
    Action.READ: ("get_logs", "history", "list_agents", "list_messages"),
    Action.READ_ARTIFACT: ("get_artifact", "list_artifacts"),
    Action.WRITE_ARTIFACT: (
        "append_artifact", "begin_artifact", "delete_artifact", "store_artifact",
    ),
    Action.ESCALATE: ("answer", "ask", "escalate", "relay_question"),
})  # fmt: skip
ACTION_OF: Final[Mapping[str, Action]] = MappingProxyType(
    {name: action for action, names in OPERATIONS.items() for name in names}
)


class Behaviour(StrEnum):
    """Whether an agent plans and delegates, or does the work itself (row T1)."""

    MANAGER = "manager"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Habit:
    """One row of the table. `restarts`: after a failure; the parent is told in any case.

    `tools`: what it may execute; an agent's own list makes it less. `most`: its highest tier.
    """

    lifetime: str
    behaviour: Behaviour
    creates: frozenset[Role]
    capabilities: tuple[str, ...]
    actions: frozenset[Action] = frozenset(Action)
    tools: tuple[str, ...] = ()
    restarts: bool = False
    after_task: AfterTask = AfterTask.STAYS
    most: Tier = Tier.STRATEGIC


_EVERY: Final = frozenset(Role)
_MANAGER: Final = (
    "artifact.write", "budget", "config.propose", "escalate", "kill", "message.operator", "spawn",
    "trigger",
)  # fmt: skip
_BELOW: Final = frozenset({Action.SPAWN, Action.KILL, Action.ASSIGN})
_WORK: Final = ("bash", "edit", "read")

HABITS: Final[Mapping[Role, Habit]] = MappingProxyType({
    Role.DAEMON: Habit(
        "permanent", Behaviour.MANAGER, _EVERY, tuple(sorted((*_MANAGER, "broadcast"))),
        restarts=True,
    ),
    Role.AGENT: Habit("session", Behaviour.MANAGER, _EVERY, _MANAGER),
    Role.ARCHITECT: Habit(
        "until its plan", Behaviour.WORKER, frozenset(),
        ("artifact.write", "config.propose", "escalate", "message.operator"),
        actions=frozenset(Action) - _BELOW, tools=("read",), after_task=AfterTask.SLEEPS,
    ),
    Role.LEAD: Habit("its parent decides", Behaviour.MANAGER, _EVERY, _MANAGER),
    Role.WORKER: Habit(
        "its parent decides", Behaviour.WORKER, frozenset({Role.TASK}),
        ("artifact.write", "config.propose", "escalate", "message.operator", "spawn"),
        tools=_WORK,
    ),
    Role.TASK: Habit(
        "one task", Behaviour.WORKER, frozenset(), ("escalate",),
        actions=frozenset(Action) - _BELOW - {Action.WRITE_ARTIFACT}, tools=_WORK,
        after_task=AfterTask.EXITS, most=Tier.TACTICAL,
    ),
})  # fmt: skip

# What the manager of older installs had beside its role: roots can see and bump what all run on.
ROOT_EXTRA: Final = ("applied.read", "meta.read", "meta.update")

# Low to high: a child's tier is never above its creator's.
RANK: Final[Mapping[Tier, int]] = MappingProxyType(
    {Tier.OPERATIONAL: 0, Tier.TACTICAL: 1, Tier.STRATEGIC: 2}
)


def default_capabilities(role: Role, *, root: bool = False) -> tuple[str, ...]:
    """What an agent of this role holds when nobody says otherwise."""
    extra = ROOT_EXTRA if root else ()
    return tuple(sorted({*HABITS[role].capabilities, *extra}))


def after_task(spec: AgentSpec) -> AfterTask:
    """What the agent does when its last task has ended (row K6)."""
    return spec.after_task or HABITS[spec.role].after_task
