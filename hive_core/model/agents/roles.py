"""What each role is by default: whom it may create, what it may do, when it comes back.

One table; policy, reconcile, the reference page and the tests read it. The daemon itself is the
only `kernel`, so that role is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from hive_core.model.agents.agent import AfterTask, AgentSpec, Role, Tier

# What an operation does, in the words that roles are asked in (row K26): each operation names one.
# A closed set, so that a new operation is bounded by the rows below whatever it is called.
Action: TypeAlias = Literal[
    "spawn", "start", "stop", "destroy", "move", "assign", "work", "send", "receive", "escalate",
    "schedule", "configure", "read", "read_artifact", "write_artifact", "administer",
]  # fmt: skip
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
# Of no role: the operator's alone.
ADMINISTER: Final[Action] = "administer"


class RoleBehaviour(StrEnum):
    """Whether an agent plans and delegates, or does the work itself (row T1)."""

    MANAGER = "manager"
    WORKER = "worker"


_OF_AGENTS: Final = frozenset[Action](ACTIONS) - {ADMINISTER}


@dataclass(frozen=True, slots=True)
class RoleDefaults:
    """One row of the table. `restarts`: after a failure; the parent is told in any case.

    `tools`: what it may execute; an agent's own list makes it less. `most`: its highest tier.
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
# What is done to agents below.
_BELOW: Final = frozenset[Action]({"spawn", "start", "stop", "destroy", "move", "assign"})
_WORK: Final = ("bash", "edit", "read")

ROLE_DEFAULTS: Final[Mapping[Role, RoleDefaults]] = MappingProxyType({
    Role.DAEMON: RoleDefaults(
        "permanent", RoleBehaviour.MANAGER, _EVERY, tuple(sorted((*_MANAGER, "broadcast"))),
        restarts=True,
    ),
    Role.AGENT: RoleDefaults("session", RoleBehaviour.MANAGER, _EVERY, _MANAGER),
    Role.ARCHITECT: RoleDefaults(
        "until its plan", RoleBehaviour.WORKER, frozenset(),
        ("artifact.write", "config.propose", "escalate", "message.operator"),
        actions=_OF_AGENTS - _BELOW, tools=("read",), after_task=AfterTask.SLEEPS,
    ),
    Role.LEAD: RoleDefaults("its parent decides", RoleBehaviour.MANAGER, _EVERY, _MANAGER),
    Role.WORKER: RoleDefaults(
        "its parent decides", RoleBehaviour.WORKER, frozenset({Role.TASK}),
        ("artifact.write", "config.propose", "escalate", "message.operator", "spawn"),
        tools=_WORK,
    ),
    Role.TASK: RoleDefaults(
        "one task", RoleBehaviour.WORKER, frozenset(), ("escalate",),
        actions=_OF_AGENTS - _BELOW - {"write_artifact"}, tools=_WORK,
        after_task=AfterTask.EXITS, most=Tier.TACTICAL,
    ),
})  # fmt: skip

# Beside its role: every root can ask for newer inputs, and the root agent alone, which stands above
# whatever the operator makes, sees the meta repo and what is deployed, so the trees of all.
ROOT_EXTRA: Final = ("meta.update",)
ROOT_AGENT_EXTRA: Final = ("applied.read", "meta.read", *ROOT_EXTRA)

# Low to high: a child's tier is never above its creator's.
TIER_RANK: Final[Mapping[Tier, int]] = MappingProxyType(
    {Tier.OPERATIONAL: 0, Tier.TACTICAL: 1, Tier.STRATEGIC: 2}
)


def default_capabilities(role: Role, extra: Iterable[str] = ()) -> tuple[str, ...]:
    """What an agent of this role holds when nobody says otherwise; `extra`: of a root."""
    return tuple(sorted({*ROLE_DEFAULTS[role].capabilities, *extra}))


def after_task(spec: AgentSpec) -> AfterTask:
    """What the agent does when its last task has ended (row K6)."""
    return spec.after_task or ROLE_DEFAULTS[spec.role].after_task
