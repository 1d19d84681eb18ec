"""The phases of a queen and her open colony (rows Q2 to Q7, Q19, Q50).

A colony is an agent of the role worker below the queen. The user opens and closes it; the queen
runs it, stops it and looks at what it did.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.delegation import call_as
from hive_core.broker.operation import Mutation, Params, Result, operation
from hive_core.errors import Conflict, InvalidArgument, NotAllowed
from hive_core.ledger.phases.storage import PhaseState
from hive_core.model.agents.agent import Profile, Role
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.agents.phase import PhaseCause, QueenPhase
from hive_core.model.work.task import ResultStatus, TaskRequest
from hive_core.operations.approvals.outcome import display_name
from hive_core.operations.batches.dispatch import wind_up
from hive_core.operations.credentials.missing import (
    MissingCredential,
    missing_credentials,
    unusable_tools,
)
from hive_core.operations.fields import Agent, Reason, bounded_text
from hive_core.operations.mail.hops import InTurn, next_hops
from hive_core.operations.phases.transitions import PhaseStep, check_edge, move_phase
from hive_core.operations.phases.views import PhaseView, check_phases, phase_view
from hive_core.operations.phases.work import note_work
from hive_core.operations.tasks.assign import create_task
from hive_core.operations.tasks.params import Data, Text
from hive_core.operations.tasks.transitions import stop_tasks
from hive_core.operations.triggers.lifecycle_hooks import pause_triggers
from hive_core.policy.rules import ANCESTOR, OPERATOR, QUEEN, SELF

# A task below this length is rarely complete enough for a worker that sees nothing else.
SHORT_TASK: Final = 60
_GRACE: Final = 3.0
_STUCK: Final = frozenset({State.FAILED, State.PARKED})
Words = Annotated[str, bounded_text(4000)]


class QueenParams(Mutation):
    agent: Agent | None = Field(
        None, description="The queen. Default: the caller; for the operator the queen of the host."
    )


class GetPhaseParams(Params):
    agent: Agent | None = Field(
        None, description="The queen. Default: the caller; for the operator the queen of the host."
    )


class OpenColonyParams(QueenParams):
    colony: Agent = Field(description="The agent of role worker below the queen.")
    goal: Words = Field(
        "", description="What the colony is for; default: the task with which it was prepared."
    )
    criteria: Words = Field("", description="How one can tell that the goal is reached.")
    constraints: Words = Field("", description="What the colony must not do.")


class ColonyRunParams(InTurn):
    agent: Agent | None = Field(
        None, description="The queen. Default: the caller; for the operator the queen of the host."
    )
    task: Text = Field(
        description="Text of the task, complete in itself; at most 32 KiB. The worker sees nothing"
        " of the conversation."
    )
    data: Data | None = Field(None, description="Input for programs, beside the text.")


class SwitchToReviewingParams(Mutation):
    """No parameters: the operation acts on the caller and her open colony."""


class ColonyRun(Result):
    task: str = Field(description="Id of the task.")
    worker: str = Field(description="The agent that has the task.")
    phase: str = Field(description="Phase of the queen now.")
    warnings: list[str] = Field(description="What may keep the worker from doing the task.")
    credentials: list[str] = Field(
        description="Credentials of the worker that have no value or have expired."
    )
    dropped: list[str] = Field(
        description="Tools that the worker does not have for this task, as long as all credentials"
        " for them are missing."
    )


class StopWorkerParams(QueenParams):
    reason: Reason = Field("", description="Reason, recorded in each result.")


class WorkerStop(Result):
    tasks: list[str] = Field(description="Tasks that are stopped.")
    batches: list[str] = Field(description="Batches that are stopped.")
    triggers: list[str] = Field(description="Triggers of the colony that are switched off.")
    phase: str = Field(description="Phase of the queen now.")


class PhaseResult(Result):
    agent: str = Field(description="The queen.")
    phase: str = Field(description="Phase of the queen now.")
    colony: str = Field(description="Her open colony; empty when none is open.")


class PersonaParams(QueenParams):
    persona: Words = Field(
        description="How the queen presents herself to people; empty: no persona. It takes effect"
        " with her next conversation or phase."
    )
    reason: Reason = Field("", description="Reason, recorded in the audit log.")


@operation(action="read", allow=SELF | ANCESTOR | OPERATOR, target="agent", preposition="of")
def get_phase(call: Call, params: GetPhaseParams) -> PhaseView:
    """Show the phase of a queen: her tools in it, where it leads, and her open colony."""
    return phase_view(call, _queen(call, params.agent))


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def open_colony(call: Call, params: OpenColonyParams) -> Record[PhaseResult]:
    """Open a colony for the queen; her phase is then `staging`, in which she prepares its work.

    A colony is an agent of role worker below her. It starts when she runs it. Goal, criteria and
    constraints become part of her prompt.
    """
    queen = _queen(call, params.agent)
    spec = call.hive.spec(params.colony)
    below = call.hive.topology.is_ancestor(queen, params.colony)
    if spec.role is not Role.WORKER or not below:
        raise InvalidArgument(
            f"{params.colony} is not an agent of role worker below {queen}", field="colony"
        )
    step = PhaseStep(QueenPhase.STAGING, PhaseCause.USER, "open_colony")
    prepared = call.ledger.colonies.get(spec.id)
    goal = params.goal or (prepared.task if prepared is not None else "")
    state = move_phase(
        call, queen, step, colony=spec.id, goal=goal, criteria=params.criteria,
        constraints=params.constraints,
    )  # fmt: skip
    return _phase_record(call, queen, state)


@operation(
    action="administer", allow=OPERATOR, target="agent", preposition="of", destructive=True
)  # fmt: skip
def close_colony(call: Call, params: QueenParams) -> Record[PhaseResult]:
    """Close the open colony of the queen: stop its work; her phase is then `independent`."""
    queen = _queen(call, params.agent)
    before = _state(call, queen)
    if before.phase is QueenPhase.INDEPENDENT:
        raise Conflict(f"cannot close the colony of {queen}: none is open")
    if before.phase is QueenPhase.RUNNING:
        _stop_run(call, before, "the colony is closed")
    state = move_phase(
        call, queen, PhaseStep(QueenPhase.INDEPENDENT, PhaseCause.USER, "close_colony"),
        colony="", goal="", criteria="", constraints="",
    )  # fmt: skip
    return _phase_record(call, queen, state)


@operation(action="assign", allow=SELF & QUEEN | OPERATOR, target="agent")
def run_agent_with_input(call: Call, params: ColonyRunParams) -> Record[ColonyRun]:
    """Start the worker of the open colony with a task; the queen's phase is then `running`.

    In the phase running it gets one more task. When the last task of the run has ended, the phase
    becomes `editing`, and the queen gets a message with the outcome.
    """
    queen = _queen(call, params.agent)
    state = _state(call, queen)
    step = PhaseStep(QueenPhase.RUNNING, _cause(call), "run_agent_with_input")
    if state.phase is not QueenPhase.RUNNING:
        check_edge(queen, state.phase, step)
    worker = _colony(call, queen, state)
    missing = missing_credentials(call, call.hive.spec(worker))
    _check_credentials(call, worker, missing)
    dropped = unusable_tools(call, call.hive.spec(worker))
    _start(call, state)
    request = TaskRequest(
        description=params.task, data=params.data,
        hops=next_hops(call, "run the colony", params.in_turn_of), without_tools=dropped,
    )  # fmt: skip
    task = create_task(call, state.agent, worker, request)
    if state.phase is not QueenPhase.RUNNING:
        state = move_phase(call, queen, step)
    note_work(call, state.agent, task.id, task.label)
    warnings = [*_warnings(params.task), *(f"without the credential {row}" for row in missing)]
    result = ColonyRun(
        task=task.id, worker=worker, phase=state.phase.value, warnings=warnings,
        credentials=[row.key for row in missing], dropped=list(dropped),
    )  # fmt: skip
    shown = {"credentials": result.credentials, "dropped": result.dropped} if missing else {}
    return Record(result, fields={"task": task.id, "worker": worker, **shown})


@operation(
    action="work", allow=SELF & QUEEN | OPERATOR, target="agent", preposition="of",
    urgent=True, destructive=True,
)  # fmt: skip
def stop_worker(call: Call, params: StopWorkerParams) -> Record[WorkerStop]:
    """Stop the run of the open colony: its tasks, batches and triggers; the phase is `staging`."""
    queen = _queen(call, params.agent)
    before = _state(call, queen)
    step = PhaseStep(QueenPhase.STAGING, _cause(call), "stop_worker")
    check_edge(queen, before.phase, step)
    tasks, batches = _stop_run(call, before, params.reason or "stopped")
    triggers = pause_triggers(call, frozenset({before.colony}))
    state = move_phase(call, queen, step)
    result = WorkerStop(tasks=tasks, batches=batches, triggers=triggers, phase=state.phase.value)
    return Record(result, fields={"tasks": tasks, "batches": batches, "triggers": triggers})


@operation(action="work", allow=SELF & QUEEN)
def switch_to_reviewing(call: Call, params: SwitchToReviewingParams) -> Record[PhaseResult]:
    """Look at what the colony did so far: the phase becomes `editing`, its work goes on."""
    del params
    step = PhaseStep(QueenPhase.EDITING, _cause(call), "switch_to_reviewing")
    state = move_phase(call, call.caller, step)
    return _phase_record(call, call.caller, state)


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def set_persona(call: Call, params: PersonaParams) -> Record[PhaseResult]:
    """Set the persona of the queen: a text at the beginning of her prompt. It adds no right."""
    queen = _queen(call, params.agent)
    state = _state(call, queen)
    call.ledger.phases.set_persona(state, params.persona)
    fields = {"bytes": len(params.persona.encode()), "reason": params.reason}
    return Record(_phase_record(call, queen, state).result, fields=fields)


def _queen(call: Call, agent: str | None) -> str:
    """The name of the queen; InvalidArgument for an agent that is none."""
    host_queen = call.hive.built_in_agent(Profile.QUEEN) if call.by_operator else call.caller
    name = agent or host_queen
    if name is None:
        raise InvalidArgument("this host has no queen", field="agent")
    check_phases(call, name)
    return name


def _state(call: Call, queen: str) -> PhaseState:
    return call.ledger.phases.get(call.hive.spec(queen).id)


def _cause(call: Call) -> PhaseCause:
    return PhaseCause.USER if call.by_operator else PhaseCause.QUEEN


def _colony(call: Call, queen: str, state: PhaseState) -> str:
    """The name of the colony's agent, which has to be below the queen still."""
    name = call.hive.name(state.colony)
    if name is None or not call.hive.topology.is_ancestor(queen, name):
        gone = display_name(call, state.colony)
        raise Conflict(f"cannot run the colony: {gone} is not below {queen} any longer")
    return name


def _start(call: Call, state: PhaseState) -> None:
    """Have the agent of the colony run, on behalf of the queen."""
    run = call.ledger.runs.get(state.colony)
    up = run is not None and run.wanted is DesiredState.RUNNING
    if not up or call.states.state(state.colony) in _STUCK:
        call_as(call, state.agent, "start", {"agent": display_name(call, state.colony)})


def _stop_run(call: Call, state: PhaseState, why: str) -> tuple[list[str], list[str]]:
    """Stop the workers. The run has ended before, so their ends cause no step."""
    open_work = [row.work for row in call.ledger.phases.work_of(state.agent) if not row.outcome]
    call.ledger.phases.clear_work(state.agent)
    running = {batch.id: batch for batch in call.ledger.plans.batches.running(state.agent)}
    batches = [id_ for id_ in open_work if id_ in running]
    tasks = [id_ for id_ in open_work if id_ not in running]
    stop_tasks(call, dict.fromkeys(tasks, why), ResultStatus.STOPPED, _GRACE)
    for id_ in batches:
        wind_up(call, running[id_], ResultStatus.STOPPED, why, _GRACE)
    return tasks, batches


def _warnings(task: str) -> list[str]:
    if len(task) >= SHORT_TASK:
        return []
    return [
        f"the task has {len(task)} characters; the worker sees nothing else, so say the goal, what"
        " is known, the result and how it is checked"
    ]


def _check_credentials(call: Call, worker: str, missing: list[MissingCredential]) -> None:
    """Refuse the run where the host says so (row Q37); NotAllowed lists what is required."""
    if not missing or call.settings.tasks.missing_credentials != "refuse":
        return
    raise NotAllowed(
        f"cannot run the colony: {worker} is without the credential"
        f" {'; '.join(map(str, missing))}: hive secret set {worker} KEY",
        rule="tasks.missing_credentials", credentials=[row.key for row in missing],
    )  # fmt: skip


def _phase_record(call: Call, queen: str, state: PhaseState) -> Record[PhaseResult]:
    colony = display_name(call, state.colony) if state.colony else ""
    result = PhaseResult(agent=queen, phase=state.phase.value, colony=colony)
    return Record(result, fields={"phase": state.phase.value, "colony": colony})
