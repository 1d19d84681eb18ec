"""A new agent and its task in one step: both, or nothing (row T3)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Final, Literal, cast
from uuid import uuid4

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Result, operation
from hive_core.model.agents.agent import AgentName, Role
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.planning import WaitCondition
from hive_core.operations.agents.spawn import SpawnParams, SpawnResult, spawn
from hive_core.operations.agents.spawn_params import Traits
from hive_core.operations.fields import Agent
from hive_core.operations.tasks.assign import assign
from hive_core.operations.tasks.params import Text, WishParams, wish_of
from hive_core.operations.waits.operations import begin
from hive_core.policy.rules import SPAWN

_STEM: Final = 24
_FALLBACK: Final = "agent"


def _lower(word: object) -> object:
    return word.lower() if isinstance(word, str) else word


class SpawnAndAssignParams(Traits, WishParams):
    agent_role: str = Field(
        min_length=1, max_length=200, description="Its title, such as Software Engineer."
    )
    task_description: Text = Field(description="What is to be done; at most 32 KiB.")
    agent_type: Annotated[Literal["worker", "manager"], BeforeValidator(_lower)] = Field(
        description="Whether it does the work itself, or plans and delegates."
    )
    wait: bool = Field(
        default=False, description="Park until the new agent or the user writes, or the task ends."
    )
    patience: float | None = Field(
        None, gt=0, description="Seconds after which the wait is over; a setting when absent."
    )
    name: AgentName | None = Field(
        None, description="Its name; made of the title by the daemon when absent."
    )
    parent: Agent | None = Field(None, description="Where it hangs; absent: under the caller.")
    definition: str | None = Field(
        None, max_length=64, description="Name of a definition; what the call says stands over it."
    )


class AgentSpawned(Result):
    agent_id: str = Field(description="The identity of the new agent; never used again.")
    task_id: str = Field(description="Its task.")
    agent_role: str = Field(description="Its title.")
    name: str = Field(description="Its name.")
    state: str = Field(description="How far the task is: in_progress, pending_delegation, ...")
    job: str = Field(description="Ends when the agent runs.")
    wait_id: str | None = Field(
        description="The wait that was begun; the message that ends it carries this."
    )


@operation(action="spawn", allow=SPAWN, target="parent", preposition="under")
def spawn_agent_and_assign_task(call: Call, params: SpawnAndAssignParams) -> Change[AgentSpawned]:
    """Create an agent under the caller or one of its descendants, and give it a task.

    Both are done, or nothing is. The daemon makes the ids, and a free name. A new manager has its
    task as `pending_delegation` until it gives its first sub-task or reports. When the machine
    cannot be started the task ends with the reason, or is tried again as `requeue` says. With
    `wait` the reply comes at once too; a message ends the wait.
    """
    made = cast("Change[SpawnResult]", spawn(call, _spawned(call, params)))
    below = call._replace(hive=made.hive)
    wish = replace(
        wish_of(below, params, params.task_description),
        title=params.agent_role, manager=params.agent_type == "manager",
    )  # fmt: skip
    task, topics = assign(below, call.uuid, made.result.name, wish, params.caps)
    wait_id = None
    if params.wait:
        wanted = WaitCondition(agents=(made.result.uuid,), tasks=(task.id,))
        wait, more = begin(below, wanted, params.patience)
        wait_id, topics = wait.id, topics | more
    result = AgentSpawned(
        agent_id=made.result.uuid, task_id=task.id, agent_role=params.agent_role,
        name=made.result.name, state=task.state.value, job=made.result.job, wait_id=wait_id,
    )  # fmt: skip
    fields = {**made.fields, "task": task.id}
    return Change(result, made.hive, made.message, made.wakes | topics, fields)


def _spawned(call: Call, params: SpawnAndAssignParams) -> SpawnParams:
    """What `spawn` takes of it."""
    said = set(SpawnParams.model_fields) - {"wait", "idempotency_key"}
    given = params.model_dump(include=said, exclude_unset=True)
    name = params.name or free_name(call, params.agent_role)
    given = {"role": _role(call, params.agent_type), **given, "name": name}
    return SpawnParams.model_validate({**given, "title": params.agent_role})


def _role(call: Call, agent_type: str) -> str:
    """The usual role of a manager, or of a worker: what the caller may create."""
    if agent_type == "manager":
        return Role.LEAD.value
    spec = call.hive.specs.get(call.caller)
    may = ROLE_DEFAULTS[spec.role].creates if spec is not None else frozenset(Role)
    return (Role.WORKER if Role.WORKER in may else Role.TASK).value


def free_name(call: Call, title: str) -> str:
    """A name like the title that nobody has; that of a hidden agent is not given away by it."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    stem = re.sub(r"^[^a-z]+", "", words)[:_STEM].strip("-") or _FALLBACK
    while (name := f"{stem}-{uuid4().hex[:4]}") in call.hive.specs:
        pass
    return name
