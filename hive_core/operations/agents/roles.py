"""The table of roles, for whoever wants to create somebody."""

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
        None, description="Only this one."
    )


class RoleRow(Result):
    role: str = Field(description="The role.")
    lifetime: str = Field(description="How long it lives.")
    behaviour: str = Field(description="manager: plans and delegates; worker: uses tools.")
    creates: list[str] = Field(description="Roles that it may create.")
    actions: list[str] = Field(description="What it may do at all, asked on every call.")
    capabilities: list[str] = Field(description="What it holds when nobody says otherwise.")
    tools: list[str] = Field(description="What it may execute; its own list makes it less.")
    restarts: bool = Field(description="Whether it starts again after a failure.")
    after_task: str = Field(description="What it does when its last task has ended.")
    tier: str = Field(description="Its tier when nobody says.")
    highest_tier: str = Field(description="The highest that it may have.")


class Roles(Result):
    roles: list[RoleRow] = Field(description="One row a role; `kernel` is the daemon itself.")


@operation(action="read", allow=SELF)
def list_roles(_call: Call, params: ListRolesParams) -> Roles:
    """List what each role is by default: whom it may create, what it may do, how it ends."""
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
