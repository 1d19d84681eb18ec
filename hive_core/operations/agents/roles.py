"""The table of roles, for agents that create agents."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.agents.agent import Role, Tier
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.policy.rules import SELF


class ListRolesParams(Params):
    role: Literal["daemon", "agent", "architect", "lead", "worker", "task"] | None = Field(
        None, description="Only this role."
    )


class RoleRow(Result):
    role: str = Field(description="Name of the role.")
    lifetime: str = Field(description="How long such an agent lives.")
    behaviour: str = Field(description="manager (plans and delegates) or worker (uses tools).")
    creates: list[str] = Field(description="Roles that it may create.")
    actions: list[str] = Field(description="Actions that it may do at all; checked on every call.")
    capabilities: list[str] = Field(description="Capabilities that it holds by default.")
    tools: list[str] = Field(
        description="Tools that it may use; an agent's own list restricts them."
    )
    restarts: bool = Field(description="Whether it is restarted after a failure.")
    after_task: str = Field(description="What it does when its last task has ended.")
    tier: str = Field(description="Its default tier.")
    highest_tier: str = Field(description="The highest tier that it may have.")


class Roles(Result):
    roles: list[RoleRow] = Field(
        description="One row for each role; `kernel` is the daemon itself."
    )


@operation(action="read", allow=SELF)
def list_roles(_call: Call, params: ListRolesParams) -> Roles:
    """List the defaults of each role: which roles it may create, what it may do, how it ends."""
    return Roles(roles=[_row(role) for role in Role if params.role in (None, role.value)])


def _row(role: Role) -> RoleRow:
    habit = ROLE_DEFAULTS[role]
    return RoleRow(
        role=role.value, lifetime=habit.lifetime, behaviour=habit.behaviour.value,
        creates=sorted(habit.creates), actions=sorted(habit.actions),
        capabilities=list(habit.capabilities), tools=list(habit.tools), restarts=habit.restarts,
        after_task=habit.after_task.value, tier=Tier.OPERATIONAL.value,
        highest_tier=habit.most.value,
    )  # fmt: skip
