"""The view of a phase: its tools, the phases that it leads to, and the colony."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call
from hive_core.broker.operation import Result
from hive_core.errors import InvalidArgument
from hive_core.ledger.phases.storage import PhaseState
from hive_core.model.agents.phase import EDGES
from hive_core.operations.phases.transitions import queen_toolset
from hive_core.operations.tools.operations import agent_tools


class WorkerProfile(Result):
    name: str = Field(description="Name of the agent.")
    title: str = Field(description="Title of the agent.")
    goal: str = Field(description="What the colony is for.")
    criteria: str = Field(description="How one can tell that it is reached.")
    constraints: str = Field(description="What it must not do.")
    tools: list[str] = Field(description="Its tools of execution.")
    status: str = Field(description="State of its machine.")


class PhaseMove(Result):
    to: str = Field(description="The next phase.")
    by: str = Field(description="Operation that moves there.")
    causes: list[str] = Field(description="Parties that may cause it: queen, user, system.")


class PhaseView(Result):
    agent: str = Field(description="The queen.")
    phase: str = Field(description="independent, staging, running or editing.")
    since: float = Field(description="Since when, in seconds since 1970; 0: from the beginning.")
    tools: list[str] = Field(description="Her tools in this phase.")
    moves: list[PhaseMove] = Field(description="Where the phase leads.")
    colony: WorkerProfile | None = Field(description="Her open colony; null when none is open.")
    work: list[str] = Field(description="Tasks and batches of the present run that are open.")
    persona: str = Field(description="How she presents herself to people, in the operator's words.")


def check_phases(call: Call, name: str) -> None:
    """Refuse an agent without phases: any but a queen with a model."""
    if not call.hive.spec(name).has_phases:
        reason = f"{name} has no phases: it is not a queen with a runtime"
        raise InvalidArgument(reason, field="agent")


def phase_view(call: Call, queen: str) -> PhaseView:
    """The phase of a queen, by name."""
    spec = call.hive.spec(queen)
    state = call.ledger.phases.get(spec.id)
    rows = call.ledger.phases.work_of(spec.id)
    return PhaseView(
        agent=queen, phase=state.phase.value, since=state.since,
        tools=list(queen_toolset(spec, state.phase)),
        moves=[
            PhaseMove(to=edge.target.value, by=edge.by, causes=sorted(edge.causes))
            for edge in EDGES if edge.source is state.phase
        ],
        colony=_worker_profile(call, state),
        work=[row.work for row in rows if not row.outcome], persona=state.persona,
    )  # fmt: skip


def _worker_profile(call: Call, state: PhaseState) -> WorkerProfile | None:
    """What the prompt of the queen says about her colony (row Q12)."""
    name = call.hive.name(state.colony) if state.colony else None
    if name is None:
        return None
    spec = call.hive.spec(name)
    return WorkerProfile(
        name=name, title=spec.title, goal=state.goal, criteria=state.criteria,
        constraints=state.constraints, tools=agent_tools(call, spec),
        status=call.states.state(spec.id).value,
    )  # fmt: skip
