"""All details of one agent, for the operator: spec, place, state, last exit."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.model.agents.agent import AgentSpec
from hive_core.model.agents.machine import DesiredRun, DesiredState, State
from hive_core.model.names import agent_unit
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR


class GetAgentParams(Params):
    agent: Agent = Field(description="The agent.")


class LastEnd(Result):
    at: float = Field(description="When it ended, in seconds since 1970.")
    code: int | None = Field(
        description="Exit status of the command; null: none. 255 may also mean a signal."
    )
    reason: str = Field(description="How it ended, or why it was stopped.")
    asked: bool = Field(description="Whether an operation requested the exit, such as a stop.")
    output: str = Field(description="Its last lines; empty after a stop.")


class AgentDetails(Result):
    name: str = Field(description="Name of the agent.")
    uuid: str = Field(description="UUID of the agent.")
    role: str = Field(description="Role of the agent.")
    title: str = Field(description="Title of the agent: free text.")
    tier: str = Field(description="strategic, tactical or operational.")
    model: str = Field(
        description="Alias of its model: that of its spec, of its tier, or the default of the host;"
        " empty: none."
    )
    models: list[str] = Field(
        description="Aliases of the models that it may use: its own first, then those of its"
        " capabilities `model:ALIAS`."
    )
    runtime: str = Field(description="What runs its model; empty: nothing, only its command runs.")
    parent: str | None = Field(description="Name of the parent; null for a root.")
    path: list[str] = Field(description="Names of its ancestors, the root first.")
    children: list[str] = Field(description="Names of its children.")
    image: str = Field(description="Name of its image, or a path.")
    boot: bool = Field(description="Whether an init system runs in the container.")
    command: list[str] = Field(
        description="Command of the agent, or of the session of its runtime; empty: nothing runs,"
        " and mail waits."
    )
    config: str | None = Field(description="The deployed commit of its configuration.")
    capabilities: list[str] = Field(description="Capabilities that it holds.")
    allow: list[str] = Field(description="Agents on its allow-list, to which it may write.")
    tools: list[str] | None = Field(description="Its tools; null: those of its role.")
    limits: dict[str, int] = Field(description="Limits of its machine; absent: the host's.")
    subtree: dict[str, int] = Field(
        description="Limits of the agent together with all its descendants."
    )
    max_children: int = Field(description="Maximum number of children.")
    after_task: str | None = Field(
        description="What it does when its last task has ended; null: the default of its role."
    )
    wakes: bool = Field(description="Whether mail wakes it when it sleeps.")
    state: str = Field(description="State of its machine.")
    activity: str = Field(description="What the agent is doing: idle, running or blocked.")
    since: float | None = Field(description="When `wanted` last changed, in seconds since 1970.")
    wanted: str = Field(description="Desired state of its machine: running, stopped or sleeping.")
    why: str = Field(description="Why its machine is in this state; empty: unknown.")
    failures: int = Field(description="Number of failures that count for parking.")
    next_start: float | None = Field(
        description="When the daemon starts it again after a failure; null: it does not."
    )
    restart_needed: bool = Field(
        description="Whether its machine runs from an older spec, until its next start."
    )
    last_end: LastEnd | None = Field(description="The last exit of its machine; null: none.")
    unit: str = Field(description="Its unit on this host.")
    inbox: int = Field(description="Number of unacknowledged messages in its inbox.")
    tasks: int = Field(description="Number of its open tasks.")


@operation(action="administer", allow=OPERATOR, target="agent")
def get_agent(call: Call, params: GetAgentParams) -> AgentDetails:
    """Show an agent: its spec, its place, what it may do, its state and why, and its last end."""
    name, hive, ledger = params.agent, call.hive, call.ledger
    spec = hive.spec(name)
    state, run, starts = (
        call.states.state(spec.id),
        ledger.runs.get(spec.id),
        ledger.starts.get(spec.id),
    )
    allowed = (hive.name(str(uuid)) for uuid in spec.allow)
    return AgentDetails(
        name=name, uuid=spec.id, role=spec.role.value, title=spec.title, tier=spec.tier.value,
        model=call.models.own_model(spec), models=[*call.models.allowed_models(spec)],
        runtime=spec.runtime or "", parent=hive.topology.parent(name),
        path=[*reversed(hive.topology.lineage(name))], children=[*hive.topology.children(name)],
        image=spec.image, boot=spec.boots, command=[*spec.program], config=spec.config,
        capabilities=[*spec.capabilities], allow=sorted(other for other in allowed if other),
        tools=None if spec.tools is None else [*spec.tools],
        limits=spec.limits.model_dump(exclude_none=True),
        subtree=spec.subtree.model_dump(exclude_none=True) if spec.subtree else {},
        max_children=spec.max_children,
        after_task=spec.after_task.value if spec.after_task else None, wakes=spec.wakes,
        state=state.value, activity=call.states.activity(spec.id),
        since=run.since if run else None,
        wanted=(run.wanted if run else DesiredState.STOPPED).value,
        why=state_reason(call, spec), failures=len(starts.failures) if starts else 0,
        next_start=starts.next_at if starts and starts.returns and state is State.FAILED else None,
        restart_needed=_is_outdated(call, name), last_end=_last_end(call, spec.id),
        unit=agent_unit(name), inbox=ledger.messages.size(spec.id)[0],
        tasks=ledger.tasks.open_counts([spec.id]).get(spec.id, 0),
    )  # fmt: skip


def state_reason(call: Call, spec: AgentSpec) -> str:
    """Why the machine of an agent is in its state, as far as the ledger has the reason."""
    return reason_of_state(call, spec, call.ledger.runs.get(spec.id))


def reason_of_state(call: Call, spec: AgentSpec, run: DesiredRun | None) -> str:
    """The same, where the desired state of the agent was read before."""
    state = call.states.state(spec.id)
    if state in (State.FAILED, State.PARKED):
        starts, end = call.ledger.starts.get(spec.id), call.ledger.lives.last_end(spec.id)
        return (starts.why if starts else "") or (end.reason if end else "")
    machine = call.states.machine(spec.id)
    if state is State.DEGRADED and machine is not None:
        return machine.fault
    asked = state in (State.STOPPED, State.STOPPING, State.SLEEPING)
    return run.reason if run is not None and asked else ""


def _is_outdated(call: Call, name: str) -> bool:
    """Whether the next pass reports that the machine runs from an older spec."""
    return any(stray.kind == "spec" and stray.name == name for stray in call.states.plan().reports)


def _last_end(call: Call, uuid: str) -> LastEnd | None:
    end = call.ledger.lives.last_end(uuid)
    if end is None:
        return None
    return LastEnd(at=end.at, code=end.code, reason=end.reason, asked=end.asked, output=end.output)
