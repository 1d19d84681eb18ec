"""Whether an agent should run now: start, stop, restart, kill, update.

None of them touches the tree or a machine: each writes down what is wanted, the change road does
it, and a job tells when.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pydantic import Field

from hive_core.broker.call import Call, Record
from hive_core.broker.operation import Result, operation
from hive_core.model.agents.machine import DesiredState, State
from hive_core.model.config.settings import NIX_IMAGE
from hive_core.operations.approvals.history import roll_out
from hive_core.operations.approvals.proposals import GOAL
from hive_core.operations.fields import Agent, Reason, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.lifecycle.exit_notices import tell_parents
from hive_core.operations.lifecycle.zombies import revive
from hive_core.policy.rules import ANCESTOR, OPERATOR

DOWN = frozenset({State.STOPPED, State.FAILED, State.PARKED, State.ABSENT})
# Wanted and not running: somebody who asks for a start now does not wait for the next try.
STUCK = frozenset({State.FAILED, State.PARKED})


class ScopeParams(WaitParams):
    agent: Agent = Field(description="The agent.")
    recursive: bool = Field(
        default=False, description="With all its descendants, leaves first, siblings in parallel."
    )


class StopParams(ScopeParams):
    grace: float | None = Field(
        None, ge=0, le=30, description="Seconds it has to end by itself; 5 when absent."
    )


class KillParams(ScopeParams):
    reason: Reason = Field("", description="Why; kept in the record.")


class AffectedAgents(Result):
    agents: list[str] = Field(description="Who is concerned, leaves first.")
    job: str = Field(description="Ends when all of them are as asked.")


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent")
def start(call: Call, params: ScopeParams) -> Record[AffectedAgents]:
    """Start an agent. One that had failed or was parked gets a new chance."""

    def want(uuid: str) -> bool:
        run = call.ledger.runs.get(uuid)
        again = call.states.state(uuid) in STUCK
        if run is not None and run.wanted is DesiredState.RUNNING and not again:
            return False
        revive(call, uuid)
        call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, fresh=again)
        return True

    return apply_to_scope(call, params, "start", "running", want)


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", urgent=True)
def stop(call: Call, params: StopParams) -> Record[AffectedAgents]:
    """Stop an agent gracefully. It keeps its place, its files and its mail."""
    grace = call.settings.grace.stop if params.grace is None else params.grace
    end = partial(_want_stopped, call, grace=grace, reason="stopped")
    return _with_parent_notices(
        call, apply_to_scope(call, params, "stop", "stopped", end), "stopped"
    )


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", urgent=True)
def kill(call: Call, params: KillParams) -> Record[AffectedAgents]:
    """End an agent at once, without grace. It keeps its place, its files and its mail."""
    end = partial(_want_stopped, call, grace=0.0, reason=params.reason or "killed")
    found = apply_to_scope(call, params, "kill", "stopped", end)
    found = replace(found, fields={**found.fields, "reason": params.reason})
    return _with_parent_notices(call, found, "killed", params.reason)


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent")
def restart(call: Call, params: ScopeParams) -> Record[AffectedAgents]:
    """Stop an agent gracefully and start it again; one that is stopped is started."""

    def want(uuid: str) -> bool:
        call.ledger.runs.want(
            uuid,
            DesiredState.RUNNING,
            call.now,
            grace=call.settings.grace.stop,
            reason="restarted",
            fresh=True,
        )
        return True

    return apply_to_scope(call, params, "restart", "running", want)


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent")
def update(call: Call, params: ScopeParams) -> Record[AffectedAgents]:
    """Have an agent take up the newest image, spec, limits and inputs.

    One of image `nix` is built from the inputs of now and switched in place where that is enough,
    several of them in waves. Another one that runs is started afresh; one that is stopped stays so
    and takes all of it up when it is started, so it is not among those concerned.
    """
    names = agents_in_scope(call, params.agent, recursive=params.recursive)
    built = [name for name in names if call.hive.spec(name).image == NIX_IMAGE]

    def want(uuid: str) -> bool:
        run = call.ledger.runs.get(uuid)
        plain = call.hive.name(uuid) not in built
        if not plain or run is None or run.wanted is not DesiredState.RUNNING:
            return False
        call.ledger.runs.want(
            uuid, DesiredState.RUNNING, call.now, grace=call.settings.grace.stop, reason="updated",
            fresh=True,
        )  # fmt: skip
        return True

    found = apply_to_scope(call, params, "update", "running", want, built=built)
    return replace(found, wakes=found.wakes | roll_out(call, built, found.result.job))


def _with_parent_notices(
    call: Call, found: Record[AffectedAgents], done: str, why: str = ""
) -> Record[AffectedAgents]:
    """With those told whose children they were."""
    told = tell_parents(call, call.hive, found.result.agents, done, why)
    return replace(found, wakes=found.wakes | told)


def agents_in_scope(call: Call, agent: str, *, recursive: bool) -> tuple[str, ...]:
    """The agent, or its whole subtree with the deepest first."""
    tree = call.hive.topology
    call.hive.spec(agent)  # an empty name is nobody's, and the operator may do all to nobody
    if not recursive:
        return (agent,)
    return tuple(sorted(tree.subtree(agent), key=lambda name: -tree.level(name)))


def _want_stopped(call: Call, uuid: str, *, grace: float, reason: str) -> bool:
    """Whether there was anything to end. A kill overtakes a stop that is still in its grace."""
    run = call.ledger.runs.get(uuid)
    wanted = run is not None and run.wanted is not DesiredState.STOPPED
    if not wanted and call.states.state(uuid) in DOWN:
        return False
    call.ledger.runs.want(uuid, DesiredState.STOPPED, call.now, grace=grace, reason=reason)
    return True


def apply_to_scope(  # noqa: PLR0913 - one of the five, and what it is about
    call: Call, params: ScopeParams, operation: str, goal: str, want: Callable[[str], bool],
    *, built: Sequence[str] = (),
) -> Record[AffectedAgents]:  # fmt: skip
    """Write down what is wanted of everyone in the scope; the job covers those it concerns.

    Those who are built have a goal that is judged elsewhere.
    """
    names = agents_in_scope(call, params.agent, recursive=params.recursive)
    hit = {name: uuid for name in names if want(uuid := call.hive.spec(name).id)}
    goals = dict.fromkeys(hit.values(), goal)
    others = {call.hive.spec(name).id: f"{GOAL}:{operation}" for name in built}
    job = create_job(call, operation, {**goals, **others})
    wakes = frozenset(f"run:{uuid}" for uuid in goals)
    agents = [name for name in names if name in hit or name in built]
    return Record(AffectedAgents(agents=agents, job=job), wakes=wakes, fields={"agents": agents})
