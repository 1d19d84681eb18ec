"""The state of the hive, for the operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from pydantic import Field

from hive_core import VERSION
from hive_core.broker.call import Call, Wait
from hive_core.broker.operation import Params, Result, operation
from hive_core.errors import NotFound
from hive_core.model.agents.machine import DesiredState, Machine, State
from hive_core.model.names import agent_unit
from hive_core.operations.agents.details import state_reason
from hive_core.operations.agents.quarantine import QuarantineRow, quarantine_rows
from hive_core.operations.fields import WAIT_MOST, Agent
from hive_core.operations.host.todo import list_todo
from hive_core.operations.questions.letters import shorten
from hive_core.policy.rules import OPERATOR

SHOWN = 100  # of each kind, so that the answer always fits into a frame
LOOK_MOST = 5.0  # seconds to wait for the first observation after the start of the daemon


class StatusParams(Params):
    """No parameters."""


class ParkedCommit(Result):
    commit: str = Field(description="A commit made by hand that is not in force.")
    reason: str = Field(description="Why it was refused.")


class Hived(Result):
    version: str = Field(description="Version of hive.")
    since: float = Field(description="When the daemon started, in seconds since 1970.")


class FailedAgent(Result):
    agent: str = Field(description="The agent.")
    state: str = Field(description="failed or parked.")
    why: str = Field(description="Why; empty where nothing is known.")


class Status(Result):
    commit: str = Field(description="The commit of the meta repo that is in force.")
    refused: list[ParkedCommit] = Field(description="Parked commits: made by hand and refused.")
    agents: dict[str, int] = Field(description="Number of agents in each state.")
    hived: Hived = Field(description="The daemon.")
    alarms: list[str] = Field(description="Alarms that need the operator.")
    waiting: int = Field(
        description="Number of items that wait for the operator: the rows of `todo`."
    )
    quarantines: list[QuarantineRow] = Field(
        description="Subtrees in quarantine, the oldest first, at most 100."
    )
    failed: list[FailedAgent] = Field(description="Agents that failed or are parked, at most 100.")
    tasks: dict[str, int] = Field(description="Number of open tasks in each state.")


class LocateParams(Params):
    agent: Agent = Field(description="The agent.")
    wait: float = Field(
        0.0,
        ge=0,
        le=60,
        description="Maximum time to wait for an agent that is being started or restarted, in"
        " seconds.",
    )


class Location(Result):
    agent: str = Field(description="The agent.")
    uuid: str = Field(description="UUID of the agent.")
    state: str = Field(description="State of its machine.")
    unit: str = Field(description="Its unit on this host.")
    main_pid: int = Field(description="Main process of the unit; 0: it does not run.")
    leader: int = Field(description="First process of the container; 0: it does not run.")
    uid_base: int = Field(description="First uid of its range on this host.")


class WaitAgentsParams(Params):
    agents: list[Agent] = Field(min_length=1, max_length=1000, description="Names of the agents.")
    states: list[str] = Field(
        min_length=1, max_length=20, description="States to wait for, any of them."
    )
    wait: float = Field(
        WAIT_MOST, ge=0, le=WAIT_MOST, description="Maximum time to wait, in seconds."
    )


class AgentState(Result):
    name: str = Field(description="The agent.")
    state: str = Field(
        description="State of its machine; `absent` for an agent that does not exist."
    )


class AgentStates(Result):
    agents: list[AgentState] = Field(description="The agents, in the order of the parameters.")
    done: bool = Field(description="Whether each is in one of the states.")


@operation(action="administer", allow=OPERATOR)
def status(call: Call, _params: StatusParams) -> Status:
    """Show the state of the hive: commit in force, agents by state, parked commits, alarms."""
    states = Counter(call.states.state(spec.id).value for spec in call.hive.specs.values())
    parked, alarms = call.states.parked_commits(), call.states.alarms()
    more = [
        f"{len(rows) - SHOWN} more {noun}"
        for rows, noun in ((parked, "parked commits"), (alarms, "alarms"))
        if len(rows) > SHOWN
    ]
    return Status(
        commit=call.hive.commit,
        refused=[ParkedCommit(commit=oid, reason=reason) for oid, reason in parked[:SHOWN]],
        agents=dict(sorted(states.items())),
        hived=Hived(version=VERSION, since=call.states.since()),
        alarms=[*alarms[:SHOWN], *more],
        waiting=sum(1 for _ in list_todo(call)),
        quarantines=list(islice(quarantine_rows(call), SHOWN)),
        failed=list(islice(_failed_agents(call), SHOWN)),
        tasks=dict(sorted(call.ledger.events.tally.tasks().items())),
    )


def _failed_agents(call: Call) -> Iterator[FailedAgent]:
    for name, spec in call.hive.specs.items():
        state = call.states.state(spec.id)
        if state in (State.FAILED, State.PARKED):
            yield FailedAgent(
                agent=name, state=state.value, why=shorten(state_reason(call, spec), 300)
            )


@operation(action="administer", allow=OPERATOR, target="agent")
def locate(call: Call, params: LocateParams) -> Location | Wait[Location]:
    """Show where an agent runs on this host: unit, process, uid range.

    For root's `hive shell`; the daemon itself never enters a container. After a start the daemon
    observes the host first, so the answer may take a few seconds.
    """
    spec = call.hive.spec(params.agent)
    machine = call.states.machine(spec.id)
    location = _location(call, params, spec.id, machine)
    if machine is None:
        return Wait(frozenset({f"state:{spec.id}"}), call.now + LOOK_MOST, location)
    if params.wait and not machine.leader and _comes_up(call, spec.id):
        return Wait(frozenset({f"state:{spec.id}"}), call.now + params.wait, location)
    return location


def _comes_up(call: Call, uuid: str) -> bool:
    """Whether the machine is starting, or stopping in order to start again."""
    run = call.ledger.runs.get(uuid)
    wanted = run is not None and run.wanted is DesiredState.RUNNING
    return wanted and call.states.state(uuid) in (State.STARTING, State.STOPPING)


def _location(call: Call, params: LocateParams, uuid: str, machine: Machine | None) -> Location:
    return Location(
        agent=params.agent,
        uuid=uuid,
        state=call.states.state(uuid).value,
        unit=agent_unit(params.agent),
        main_pid=machine.main_pid if machine else 0,
        leader=machine.leader if machine else 0,
        uid_base=call.ledger.ranges.base(uuid) or 0,
    )


@operation(action="administer", allow=OPERATOR)
def wait_agents(call: Call, params: WaitAgentsParams) -> AgentStates | Wait[AgentStates]:
    """Wait until each of the agents is in one of the states, or until `wait` has passed."""
    uuids = {name: _uuid(call, params, name) for name in params.agents}
    states = {name: _state(call, uuid) for name, uuid in uuids.items()}
    done = all(state.value in params.states for state in states.values())
    rows = [AgentState(name=name, state=state.value) for name, state in states.items()]
    result = AgentStates(agents=rows, done=done)
    if done:
        return result
    topics = {f"state:{uuid}" for uuid in uuids.values() if uuid is not None}
    return Wait(frozenset({"tree", *topics}), call.now + params.wait, result)


def _uuid(call: Call, params: WaitAgentsParams, name: str) -> str | None:
    """The UUID.

    None for an agent that was destroyed or may be created later; a misspelt name is an error.
    """
    spec = call.hive.specs.get(name)
    expected = State.ABSENT.value in params.states or name == call.settings.root.name
    if spec is None and not expected:
        raise NotFound(f"no such agent: {name}")
    return None if spec is None else spec.id


def _state(call: Call, uuid: str | None) -> State:
    return State.ABSENT if uuid is None else call.states.state(uuid)
