"""What each role is by default: whom it may create, what it may do, when it comes back.

One table; policy, reconcile, the reference page and the tests read it. The daemon itself is the
only `kernel`, so that role is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hive_core.model.agent import AfterTask, AgentSpec, Role, Tier


@dataclass(frozen=True, slots=True)
class Habit:
    """One row of the table. `restarts`: after a failure; the parent is told in any case."""

    creates: frozenset[Role]
    capabilities: tuple[str, ...]
    restarts: bool = False
    after_task: AfterTask = AfterTask.STAYS


_EVERY: Final = frozenset(Role)
_MANAGER: Final = (
    "artifact.write", "budget", "config.propose", "escalate", "kill", "message.operator", "spawn",
    "trigger",
)  # fmt: skip

HABITS: Final[Mapping[Role, Habit]] = MappingProxyType({
    Role.DAEMON: Habit(_EVERY, tuple(sorted((*_MANAGER, "broadcast"))), restarts=True),
    Role.AGENT: Habit(_EVERY, _MANAGER),
    Role.ARCHITECT: Habit(
        frozenset(),
        ("artifact.write", "config.propose", "escalate", "message.operator"),
        after_task=AfterTask.SLEEPS,
    ),
    Role.LEAD: Habit(_EVERY, _MANAGER),
    Role.WORKER: Habit(
        frozenset({Role.TASK}),
        ("artifact.write", "config.propose", "escalate", "message.operator", "spawn"),
    ),
    Role.TASK: Habit(frozenset(), ("escalate",), after_task=AfterTask.EXITS),
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
