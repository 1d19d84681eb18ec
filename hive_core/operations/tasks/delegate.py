"""Creating an agent and assigning its task in one step: both, or neither (row T3)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Final, Literal, cast
from uuid import uuid4

from pydantic import BeforeValidator, Field

from hive_core.broker.call import Call, Change
from hive_core.broker.login_rule import Level, LoginRule
from hive_core.broker.operation import Result, operation
from hive_core.model.agents.agent import AgentName, Role
from hive_core.model.agents.roles import ROLE_DEFAULTS
from hive_core.model.work.planning import WaitCondition
from hive_core.operations.agents.spawn import (
    SpawnParams,
    SpawnResult,
    confirmation_of_spawn,
    inherited_runtime,
    spawn,
)
from hive_core.operations.agents.spawn_params import Traits
from hive_core.operations.fields import Agent
from hive_core.operations.tasks.assign import create_task
from hive_core.operations.tasks.params import (
    TaskRequestParams,
    Text,
    confirmation_of_budget,
    task_request,
)
from hive_core.operations.waits.operations import begin_wait
from hive_core.policy.rules import SPAWN

_STEM: Final = 24
_FALLBACK: Final = "agent"


def _lower(word: object) -> object:
    return word.lower() if isinstance(word, str) else word


class SpawnAndAssignParams(Traits, TaskRequestParams):
    agent_role: str = Field(
        min_length=1, max_length=200, description="Title of the agent, such as Software Engineer."
    )
    task_description: Text = Field(description="Text of the task; at most 32 KiB.")
    agent_type: Annotated[Literal["worker", "manager"], BeforeValidator(_lower)] = Field(
        description="worker (does the work itself) or manager (plans and delegates)."
    )
    wait: bool = Field(
        default=False,
        description="Whether to park the caller until the new agent or the user writes, or the"
        " task ends.",
    )
    patience: float | None = Field(
        None, gt=0, description="Seconds after which the wait ends; default: a setting."
    )
    name: AgentName | None = Field(
        None, description="Name of the agent; default: the daemon makes one from the title."
    )
    parent: Agent | None = Field(None, description="Parent of the agent; default: the caller.")
    definition: str | None = Field(
        None, max_length=64,
        description="Definition for the values that the call does not set.",
    )  # fmt: skip


class AgentSpawned(Result):
    agent_id: str = Field(description="UUID of the new agent; it is never used again.")
    task_id: str = Field(description="Id of its task.")
    agent_role: str = Field(description="Title of the agent.")
    name: str = Field(description="Name of the agent.")
    state: str = Field(description="State of the task: queued, pending_delegation, ...")
    job: str = Field(description="Job that ends when the agent runs.")
    wait_id: str | None = Field(
        description="Id of the wait; the message that ends the wait carries it. Null without"
        " `wait`."
    )


def _confirmation(call: Call, params: SpawnAndAssignParams) -> Level | None:
    level = confirmation_of_spawn(call, _spawn_params(call, params))
    return level or confirmation_of_budget(call, params)


@operation(
    action="spawn",
    allow=SPAWN,
    target="parent",
    preposition="under",
    login=LoginRule(confirm=_confirmation),
)
def spawn_agent_and_assign_task(call: Call, params: SpawnAndAssignParams) -> Change[AgentSpawned]:
    """Create an agent under the caller or one of its descendants, and assign it a task.

    The daemon does both or neither. It makes the ids, and a free name. The task of a new manager is
    `pending_delegation` until the manager assigns its first sub-task or reports. When the machine
    cannot be started, the task fails with the reason, or is retried up to `requeue` times. The
    reply comes at once also with `wait`; a message ends the wait.
    """
    spawned = cast("Change[SpawnResult]", spawn(call, _spawn_params(call, params)))
    agent = spawned.result
    with_agent = replace(call, hive=spawned.hive)
    request = replace(
        task_request(with_agent, params, params.task_description),
        title=params.agent_role, manager=params.agent_type == "manager",
    )  # fmt: skip
    task = create_task(with_agent, call.uuid, agent.name, request, params.caps)
    wait_id = None
    if params.wait:
        condition = WaitCondition(agents=(agent.uuid,), tasks=(task.id,))
        wait_id = begin_wait(with_agent, condition, params.patience).id
    result = AgentSpawned(
        agent_id=agent.uuid, task_id=task.id, agent_role=params.agent_role, name=agent.name,
        state=task.state.value, job=agent.job, wait_id=wait_id,
    )  # fmt: skip
    fields = {**spawned.fields, "task": task.id}
    return Change(
        result, spawned.hive, spawned.message, fields=fields, target=spawned.target
    )  # fmt: skip


def _spawn_params(call: Call, params: SpawnAndAssignParams) -> SpawnParams:
    """The parameters of the call that `spawn` takes too."""
    names = set(SpawnParams.model_fields) - {"wait", "idempotency_key"}
    fields = params.model_dump(include=names, exclude_unset=True)
    name = params.name or free_name(call, params.agent_role)
    fields = {"role": _default_role(call, params.agent_type), **fields, "name": name}
    if (runtime := inherited_runtime(call, fields)) is not None:
        fields["runtime"] = runtime
    return SpawnParams.model_validate({**fields, "title": params.agent_role})


def _default_role(call: Call, agent_type: str) -> str:
    """The usual role of a manager or a worker that the caller may create."""
    if agent_type == "manager":
        return Role.LEAD.value
    spec = call.hive.specs.get(call.caller)
    allowed = ROLE_DEFAULTS[spec.role].creates if spec is not None else frozenset(Role)
    return (Role.WORKER if Role.WORKER in allowed else Role.TASK).value


def free_name(call: Call, title: str) -> str:
    """An unused name made from the title; it is random, so it does not reveal hidden agents."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    stem = re.sub(r"^[^a-z]+", "", words)[:_STEM].strip("-") or _FALLBACK
    while (name := f"{stem}-{uuid4().hex[:4]}") in call.hive.specs:
        pass
    return name
