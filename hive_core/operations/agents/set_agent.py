"""Changes of an agent's spec by the operator, each a commit."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from hive_core.broker.call import Call, Change
from hive_core.broker.login_rule import EACH
from hive_core.broker.operation import Mutation, Result, operation
from hive_core.model.agents.agent import AgentSpec, EgressRuleText, Limits, Runtime
from hive_core.model.agents.machine import State
from hive_core.model.agents.model_catalog import check_spec
from hive_core.operations.agents.spawn_params import SpawnLimits, check_command
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR

_FIELDS: Final = ("title", "command", "runtime", "model", "egress", "limits")
# Fields that a running machine uses at once.
_LIVE: Final = frozenset({"title", "egress"})
_DOWN = frozenset({State.ABSENT, State.STOPPED, State.SLEEPING, State.FAILED, State.PARKED})


class SetAgentParams(Mutation):
    agent: Agent = Field(description="The agent.")
    title: str | None = Field(
        None, max_length=200, description="Title of the agent: free text; absent: no change."
    )
    command: Annotated[list[str], AfterValidator(check_command)] | None = Field(
        None,
        max_length=1024,
        description="Command of the agent; with an empty command nothing runs, and mail waits."
        " Absent: no change.",
    )
    runtime: Literal["none", "builtin", "scripted", "claude", "codex", "opencode", "acp"] | None = (
        Field(
            None,
            description="What runs its model: `builtin`, `claude`, `codex`, `opencode`, `acp` for"
            " the program of `[acp]` in agent.toml, or `scripted` for tests. `none`: only its"
            " command runs. Absent: no change.",
        )
    )
    model: str | None = Field(
        None,
        max_length=200,
        description="Alias of its model in models.toml; empty: that of its tier. Absent: no"
        " change.",
    )
    egress: Annotated[list[EgressRuleText], Field(max_length=256)] | None = Field(
        None,
        description="Where it may connect to, of what `[egress]` of hive.toml allows, each"
        " `NAME:PORT` or `*.NAME:PORT`; empty: all of it. Absent: no change.",
    )
    limits: SpawnLimits = Field(
        SpawnLimits.model_construct(),
        description="Limits of its machine to change; null sets the host's default. Absent limits"
        " do not change.",
    )


class SetAgentResult(Result):
    agent: str = Field(description="The agent.")
    changed: list[str] = Field(description="Fields of its spec that changed; empty: none.")
    restart_needed: bool = Field(
        description="Whether its machine runs; it then uses the change from its next start on."
    )


@operation(action="administer", allow=OPERATOR, target="agent", login=EACH)
def set_agent(call: Call, params: SetAgentParams) -> Change[SetAgentResult] | SetAgentResult:
    """Change settings of an agent, in one commit of the meta repo.

    Title and egress rules apply at once, command, runtime, model and limits from its next start on.
    """
    spec = call.hive.spec(params.agent)
    changed = _changed_spec(spec, params)
    check_spec(call.models, changed, spec)
    fields = [key for key in _FIELDS if getattr(changed, key) != getattr(spec, key)]
    is_up = call.states.state(spec.id) not in _DOWN
    result = SetAgentResult(
        agent=params.agent, changed=fields, restart_needed=is_up and not _LIVE.issuperset(fields)
    )
    if not fields:
        return result
    return Change(
        result, call.hive.with_spec(params.agent, changed),
        f"set {', '.join(fields)} of {params.agent}", fields={"changed": fields},
    )  # fmt: skip


def _changed_spec(spec: AgentSpec, params: SetAgentParams) -> AgentSpec:
    limits = {**spec.limits.model_dump(), **params.limits.model_dump(exclude_unset=True)}
    return spec.model_copy(
        update={
            "title": spec.title if params.title is None else params.title,
            "command": spec.command if params.command is None else tuple(params.command),
            "runtime": _changed_runtime(spec, params.runtime),
            "model": spec.model if params.model is None else params.model or None,
            "egress": spec.egress if params.egress is None else tuple(params.egress),
            "limits": Limits(**limits),
        }
    )


def _changed_runtime(spec: AgentSpec, wanted: str | None) -> Runtime | None:
    if wanted is None:
        return spec.runtime
    return None if wanted == "none" else Runtime(wanted)
