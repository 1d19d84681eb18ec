"""The processor time and memory of an agent in the last hour."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.agent_figures import EVERY, POINTS
from hive_core.broker.call import Call
from hive_core.broker.operation import Params, Result, operation
from hive_core.operations.fields import Agent
from hive_core.policy.rules import OPERATOR


class GetFiguresParams(Params):
    agent: Agent = Field(description="The agent.")
    seconds: float = Field(
        EVERY * POINTS, gt=0, le=EVERY * POINTS, description="Seconds back from now, at most 3600."
    )


class FigurePoint(Result):
    time: float = Field(description="Time, in seconds since 1970.")
    cpu: float = Field(description="Share of one processor core: 0.5 is half a core.")
    memory: int = Field(description="Memory of its machine in bytes.")


class AgentFigurePoints(Result):
    every: float = Field(description="Seconds between two points.")
    points: list[FigurePoint] = Field(
        description="The points, the oldest first; none for times at which the machine did not run"
        " or hived did not."
    )


@operation(action="administer", allow=OPERATOR, target="agent", preposition="of")
def get_figures(call: Call, params: GetFiguresParams) -> AgentFigurePoints:
    """Show processor time and memory of an agent's machine in the last hour.

    hived keeps one point for each 10 s, in memory: they are gone when it ends.
    """
    uuid = call.hive.spec(params.agent).id
    points = call.rows.figures.points(uuid, call.now - params.seconds, call.now)
    shown = [FigurePoint(time=at, cpu=round(cpu, 4), memory=memory) for at, cpu, memory in points]
    return AgentFigurePoints(every=EVERY, points=shown)
