"""The defaults of each role: which roles it may create, what it may do, when it restarts.

Policy, reconcile, the reference page and the tests read this one table. The daemon itself is the
only `kernel`, so the table does not have that role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from hive_core.model.agents.agent import AfterTask, AgentSpec, Role, Tier
from hive_core.model.agents.toolset import execution_tools

# The action of an operation, which its role must allow (row K26): each operation names one.
# A closed set, so that the rows below restrict a new operation whatever its name is.
Action: TypeAlias = Literal[
    "spawn", "start", "stop", "destroy", "move", "assign", "work", "send", "receive", "escalate",
    "schedule", "configure", "read", "read_artifact", "write_artifact", "administer", "meter",
    "connect",
]  # fmt: skip
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
# No role has these actions: only the operator has the first, hive-model the second, and
# hive-egress the third.
ADMINISTER: Final[Action] = "administer"
METER: Final[Action] = "meter"
CONNECT: Final[Action] = "connect"


class RoleBehaviour(StrEnum):
    """Whether an agent plans and delegates, or does the work itself (row T1)."""

    MANAGER = "manager"
    WORKER = "worker"


_OF_AGENTS: Final = frozenset[Action](ACTIONS) - {ADMINISTER, METER, CONNECT}


@dataclass(frozen=True, slots=True)
class RoleDefaults:
    """One row of the table. `restarts`: after a failure; the parent is told in any case.

    `tools`: the tools that it may use; an agent's own list restricts them. `most`: its highest
    tier.
    """

    lifetime: str
    behaviour: RoleBehaviour
    creates: frozenset[Role]
    capabilities: tuple[str, ...]
    actions: frozenset[Action] = _OF_AGENTS
    tools: tuple[str, ...] = ()
    restarts: bool = False
    after_task: AfterTask = AfterTask.STAYS
    most: Tier = Tier.STRATEGIC


_EVERY: Final = frozenset(Role)
_MANAGER: Final = (
    "artifact.write", "budget", "config.propose", "escalate", "kill", "message.operator", "spawn",
    "trigger",
)  # fmt: skip
# Actions on descendants.
_BELOW: Final = frozenset[Action]({"spawn", "start", "stop", "destroy", "move", "assign"})

ROLE_DEFAULTS: Final[Mapping[Role, RoleDefaults]] = MappingProxyType({
    Role.DAEMON: RoleDefaults(
        "permanent", RoleBehaviour.MANAGER, _EVERY, tuple(sorted((*_MANAGER, "broadcast"))),
        restarts=True,
    ),
    Role.AGENT: RoleDefaults("session", RoleBehaviour.MANAGER, _EVERY, _MANAGER),
    Role.ARCHITECT: RoleDefaults(
        "until its plan", RoleBehaviour.WORKER, frozenset(),
        ("artifact.write", "config.propose", "escalate", "message.operator"),
        actions=_OF_AGENTS - _BELOW, tools=execution_tools(Role.ARCHITECT),
        after_task=AfterTask.SLEEPS,
    ),
    Role.LEAD: RoleDefaults("its parent decides", RoleBehaviour.MANAGER, _EVERY, _MANAGER),
    Role.WORKER: RoleDefaults(
        "its parent decides", RoleBehaviour.WORKER, frozenset({Role.TASK}),
        ("artifact.write", "config.propose", "escalate", "message.operator", "spawn"),
        tools=execution_tools(Role.WORKER),
    ),
    Role.TASK: RoleDefaults(
        "one task", RoleBehaviour.WORKER, frozenset(), ("escalate",),
        actions=_OF_AGENTS - _BELOW - {"write_artifact"}, tools=execution_tools(Role.TASK),
        after_task=AfterTask.EXITS, most=Tier.TACTICAL,
    ),
})  # fmt: skip

# In addition to its role: every root can request newer inputs, and the root agent alone, the parent
# of what the operator creates, sees the meta repo and what is deployed, so all trees.
ROOT_EXTRA: Final = ("meta.update",)
ROOT_AGENT_EXTRA: Final = ("applied.read", "meta.read", *ROOT_EXTRA)

# From low to high: a child's tier is at most its creator's.
TIER_RANK: Final[Mapping[Tier, int]] = MappingProxyType(
    {Tier.OPERATIONAL: 0, Tier.TACTICAL: 1, Tier.STRATEGIC: 2}
)


def default_capabilities(role: Role, extra: Iterable[str] = ()) -> tuple[str, ...]:
    """What an agent of this role holds by default; `extra`: the additional ones of a root."""
    return tuple(sorted({*ROLE_DEFAULTS[role].capabilities, *extra}))


def after_task(spec: AgentSpec) -> AfterTask:
    """What the agent does when its last task has ended (row K6)."""
    return spec.after_task or ROLE_DEFAULTS[spec.role].after_task
