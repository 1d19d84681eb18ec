"""The state that an agent should be in: start, stop, restart, kill, update.

None of these operations touches the tree or a machine. Each records the wanted state, the change
path applies it, and a job ends when that is done.
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
from hive_core.operations.lifecycle.child_exits import tell_parents
from hive_core.operations.lifecycle.zombies import revive
from hive_core.operations.tasks.lifecycle_hooks import end_interrupted_tasks
from hive_core.policy.rules import ANCESTOR, OPERATOR

DOWN = frozenset({State.STOPPED, State.FAILED, State.PARKED, State.ABSENT})
# States of a wanted agent that does not run: a start now does not wait for the next retry.
STUCK = frozenset({State.FAILED, State.PARKED})


class ScopeParams(WaitParams):
    agent: Agent = Field(description="The agent.")
    recursive: bool = Field(
        default=False,
        description="Whether to include all its descendants: leaves first, siblings in parallel.",
    )


class StopParams(ScopeParams):
    grace: float | None = Field(
        None, ge=0, le=30, description="Seconds until it is killed; 5 when absent."
    )


class KillParams(ScopeParams):
    reason: Reason = Field("", description="The reason, recorded in the audit log.")


class AffectedAgents(Result):
    agents: list[str] = Field(description="The agents that are affected, leaves first.")
    job: str = Field(description="The job that ends when all of them are in the wanted state.")


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent", idempotent=True)
def start(call: Call, params: ScopeParams) -> Record[AffectedAgents]:
    """Start an agent. A failed or parked agent is started again at once."""

    def want(uuid: str) -> bool:
        """Record that the agent is to run; False: it does."""
        run = call.ledger.runs.get(uuid)
        stuck = call.states.state(uuid) in STUCK
        if run is not None and run.wanted is DesiredState.RUNNING and not stuck:
            return False
        revive(call, uuid)
        call.ledger.runs.want(uuid, DesiredState.RUNNING, call.now, fresh=stuck)
        return True

    return apply_to_scope(call, params, "start", "running", want)


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", urgent=True, idempotent=True)
def stop(call: Call, params: StopParams) -> Record[AffectedAgents]:
    """Stop an agent gracefully. It keeps its place, its files and its mail."""
    grace = call.settings.grace.stop if params.grace is None else params.grace
    want = partial(_request_stop, call, grace=grace, reason="stopped")
    record = apply_to_scope(call, params, "stop", "stopped", want)
    tell_parents(call, call.hive, record.result.agents, "stopped")
    return record


@operation(action="stop", allow=ANCESTOR | OPERATOR, target="agent", urgent=True, idempotent=True)
def kill(call: Call, params: KillParams) -> Record[AffectedAgents]:
    """End an agent at once, without grace. It keeps its place, its files and its mail."""
    want = partial(_request_stop, call, grace=0.0, reason=params.reason or "killed")
    record = apply_to_scope(call, params, "kill", "stopped", want)
    tell_parents(call, call.hive, record.result.agents, "killed", params.reason)
    return replace(record, fields={**record.fields, "reason": params.reason})


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent", destructive=True)
def restart(call: Call, params: ScopeParams) -> Record[AffectedAgents]:
    """Stop an agent gracefully and start it again; a stopped agent is started."""
    want = partial(_want_fresh_start, call, reason="restarted")
    return apply_to_scope(call, params, "restart", "running", want)


def _want_fresh_start(call: Call, uuid: str, *, reason: str) -> bool:
    grace = call.settings.grace.stop
    call.ledger.runs.want(
        uuid, DesiredState.RUNNING, call.now, grace=grace, reason=reason, fresh=True
    )
    return True


@operation(action="start", allow=ANCESTOR | OPERATOR, target="agent", destructive=True)
def update(call: Call, params: ScopeParams) -> Record[AffectedAgents]:
    """Apply the newest image, spec, limits and inputs to an agent.

    An agent of image `nix` is built from the present inputs and, where possible, switched in place;
    several agents follow in waves. Any other running agent is restarted. A stopped agent stays
    stopped and takes the new versions at its next start, so it is not among the affected agents.
    """
    names = agents_in_scope(call, params.agent, recursive=params.recursive)
    built = [name for name in names if call.hive.spec(name).image == NIX_IMAGE]

    def want(uuid: str) -> bool:
        run = call.ledger.runs.get(uuid)
        plain = call.hive.name(uuid) not in built
        if not plain or run is None or run.wanted is not DesiredState.RUNNING:
            return False
        return _want_fresh_start(call, uuid, reason="updated")

    record = apply_to_scope(call, params, "update", "running", want, built=built)
    roll_out(call, built, record.result.job)
    return record


def agents_in_scope(call: Call, agent: str, *, recursive: bool) -> tuple[str, ...]:
    """The agent, or its whole subtree with the deepest first."""
    tree = call.hive.topology
    call.hive.spec(agent)  # refuses an empty name: for the operator no rule does
    if not recursive:
        return (agent,)
    return tuple(sorted(tree.subtree(agent), key=lambda name: -tree.level(name)))


def _request_stop(call: Call, uuid: str, *, grace: float, reason: str) -> bool:
    """Request a stop; False when the agent is stopped already.

    A kill overrides a stop in its grace.
    """
    run = call.ledger.runs.get(uuid)
    wanted = run is not None and run.wanted is not DesiredState.STOPPED
    if not wanted and call.states.state(uuid) in DOWN:
        return False
    call.ledger.runs.want(uuid, DesiredState.STOPPED, call.now, grace=grace, reason=reason)
    end_interrupted_tasks(call, uuid, reason)
    return True


def apply_to_scope(  # noqa: PLR0913 - an operation, its scope and its goal
    call: Call, params: ScopeParams, operation: str, goal: str, want: Callable[[str], bool],
    *, built: Sequence[str] = (),
) -> Record[AffectedAgents]:  # fmt: skip
    """Request a state of each agent in the scope; the job covers those that it changes.

    `want` writes the request of one agent, and returns whether that changes something.

    The goal of the agents in `built` is an approval, which the deployer judges.
    """
    names = agents_in_scope(call, params.agent, recursive=params.recursive)
    affected: dict[str, str] = {}
    for name in names:
        uuid = call.hive.spec(name).id
        if want(uuid):
            affected[name] = uuid
    goals = dict.fromkeys(affected.values(), goal)
    approvals = {call.hive.spec(name).id: f"{GOAL}:{operation}" for name in built}
    job = create_job(call, operation, {**goals, **approvals})
    call.notify(*(f"run:{uuid}" for uuid in goals))
    agents = [name for name in names if name in affected or name in built]
    return Record(AffectedAgents(agents=agents, job=job), fields={"agents": agents})
