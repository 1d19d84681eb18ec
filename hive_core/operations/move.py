"""Another parent for an agent and everything below it."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Result, operation
from hive_core.model.hive import Hive
from hive_core.model.machine import State
from hive_core.operations.fields import Agent, Waiting
from hive_core.operations.jobs import begun
from hive_core.operations.notices import MOVED, tell
from hive_core.operations.run_time import moved
from hive_core.operations.task_fates import given_on
from hive_core.plan.moving import Consequences, consequences
from hive_core.policy.grants import check_move
from hive_core.policy.rules import MOVE

UP = frozenset({State.STARTING, State.RUNNING, State.DEGRADED, State.DEPLOYING})


class MoveParams(Waiting):
    agent: Agent = Field(description="The agent; what is below it moves along.")
    parent: Agent = Field(description="Its new parent; empty makes it a root.")
    dry_run: bool = Field(default=False, description="Only say what would follow.")


class Moved(Result):
    agent: str = Field(description="The agent.")
    parent: str | None = Field(description="Its parent after the move; null for a root.")
    live: bool = Field(description="Nothing has to be restarted.")
    crossing: list[str] = Field(
        description="Restarted, because they leave or enter a subtree that carries limits."
    )
    restarts: list[str] = Field(
        description="All that are restarted: those crossing, and those who lose access to the"
        " agent's files and could have them mounted."
    )
    scanned: list[str] = Field(
        description="Who lose access and go on running; processes that hold a file are ended."
    )
    gaining: list[str] = Field(description="Who gain access to the agent's files.")
    ended: list[str] = Field(description="What was ended; known when the answer waited for it.")
    job: str | None = Field(
        description="Ends when files and views are as decided; null when nothing was done."
    )


@operation(action="move", allow=MOVE, target="agent", second="parent")
def move(call: Call, params: MoveParams) -> Change[Moved] | Moved:
    """Hang an agent, with everything below it, under another parent.

    From the commit on decisions use the new tree; files and views follow at once, in running
    containers too. Only what crosses the border of a subtree that carries limits is restarted, and
    who loses access to the files and could have mounted them. `dry_run` says who that would be.
    """
    parent = params.parent or None
    uuid = call.hive.spec(params.agent).id
    before = call.hive.topology.parent(params.agent)
    check_move(call.hive, call.caller, params.agent, parent)
    hive = call.hive.moved(params.agent, parent)
    what = consequences(call.hive, hive, params.agent)
    if params.dry_run or parent == before:
        return _result(call, params, what, None)
    job = begun(call, "move", {uuid: "moved"})
    told = _tell(call, hive, params.agent, parent) | given_on(call, hive, params.agent)
    return Change(
        _result(call, params, what, job),
        hive,
        f"move {params.agent} from {before or 'the roots'} to {parent or 'the roots'}",
        wakes=told | moved(call, hive, params.agent),
        fields={"from": before, "to": parent},
    )


def _result(call: Call, params: MoveParams, what: Consequences, job: str | None) -> Moved:
    crossing = _running(call, what.crossing)
    restarts = list(dict.fromkeys((*crossing, *_running(call, what.restarted))))
    return Moved(
        agent=params.agent, parent=params.parent or None, live=not restarts, crossing=crossing,
        restarts=restarts, scanned=_running(call, what.scanned), gaining=list(what.gaining),
        ended=[], job=job,
    )  # fmt: skip


def _running(call: Call, names: tuple[str, ...]) -> list[str]:
    """Those whose machine is up: the others have nothing to lose."""
    return [name for name in names if call.states.state(call.hive.spec(name).id) in UP]


def _tell(call: Call, hive: Hive, agent: str, parent: str | None) -> frozenset[str]:
    """The moved agent and its new parent; the environment of what runs cannot change."""
    home = "you are a root now" if parent is None else f"your parent is {parent} now"
    topics = tell(call, hive, agent, MOVED, f"you were moved: {home}")
    if parent is not None and parent != call.caller:
        topics |= tell(call, hive, parent, MOVED, f"{agent} is your child now")
    return frozenset(topics)
