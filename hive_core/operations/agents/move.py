"""Moving an agent, with everything below it, under another parent."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.login_rule import Level, LoginRule
from hive_core.broker.operation import Result, operation
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.hive import Hive
from hive_core.model.operator.account import Scope
from hive_core.operations.agents.quarantine import hold_after_move
from hive_core.operations.agents.revocation import (
    RevocationOptions,
    running_agents,
    start_revocation,
)
from hive_core.operations.budgets.run_time import rebill_move
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.notices import MOVED, send_notice
from hive_core.operations.tasks.lifecycle_hooks import reassign_tasks
from hive_core.plan.revocation import Consequences, consequences
from hive_core.policy.grants import check_move
from hive_core.policy.rules import MOVE

IDLE_MOST = 86_400.0


class MoveParams(WaitParams):
    agent: Agent = Field(description="The agent; its descendants move along.")
    parent: Agent = Field(description="Its new parent; empty makes it a root.")
    when_idle: float | None = Field(
        None,
        ge=0,
        le=IDLE_MOST,
        description="Seconds that agents which lose access have to finish their work before they"
        " are restarted; absent: restart them at once.",
    )
    no_restart: bool = Field(
        default=False,
        description="Do not restart agents that lose access; they keep the files that they hold"
        " open. Only the operator may set it.",
    )
    dry_run: bool = Field(default=False, description="Only report what the move would do.")


class Moved(Result):
    agent: str = Field(description="The agent.")
    parent: str | None = Field(description="Its parent after the move; null for a root.")
    live: bool = Field(description="Whether the move needs no restart.")
    crossing: list[str] = Field(
        description="Agents that are restarted because they leave or enter a subtree with limits."
    )
    restarts: list[str] = Field(
        description="All agents that are restarted: those in `crossing`, and former ancestors with"
        " all agents below them that do not move along."
    )
    left: list[str] = Field(
        description="Agents that were not restarted because of `no_restart`, and may still hold"
        " files of the agent open; `status` lists them until they are restarted."
    )
    gaining: list[str] = Field(description="Agents that gain access to the agent's files.")
    revoked: float | None = Field(
        description="When the access had ended, in seconds since 1970; null when no agent lost"
        " access, or the call did not wait."
    )
    job: str | None = Field(
        description="The job; it ends when the access has ended and the restarted agents are up;"
        " null when nothing was done."
    )


def _confirmation(_: Call, params: MoveParams) -> Level:
    """Without the restart, agents may keep what they are to lose."""
    return "each" if params.no_restart else "fresh"


@operation(
    action="move",
    allow=MOVE,
    target="agent",
    second="parent",
    idempotent=True,
    login=LoginRule(confirm=_confirmation, scope=Scope.APPROVER),
)
def move(call: Call, params: MoveParams) -> Change[Moved] | Moved:
    """Move an agent, with everything below it, under another parent.

    From the commit on decisions use the new tree; files and views follow at once, in running
    containers too. The moved agents keep running, except those that enter or leave a subtree with
    limits. Former ancestors of the agent are restarted, with all agents below them that do not move
    along: only a restart closes the files that they may hold open. `dry_run` lists them.
    """
    _check_options(call, params)
    parent = params.parent or None
    uuid = call.hive.spec(params.agent).id
    before = call.hive.topology.parent(params.agent)
    check_move(call.hive, call.caller, params.agent, parent)
    hive = call.hive.with_parent(params.agent, parent)
    effects = consequences(call.hive, hive, params.agent)
    if params.dry_run or parent == before:
        return _result(call, params, effects, None)
    job = create_job(call, "move", {uuid: "moved"})
    if effects.lost:
        latest = None if params.when_idle is None else call.now + params.when_idle
        how = RevocationOptions(job, restart=not params.no_restart, latest=latest)
        start_revocation(call, hive, params.agent, effects.lost, how)
    _tell_family(call, hive, params.agent, parent)
    reassign_tasks(call, hive, params.agent)
    rebill_move(call, hive, params.agent)
    hold_after_move(call, hive, params.agent)
    return Change(
        _result(call, params, effects, job),
        hive,
        f"move {params.agent} from {before or 'the roots'} to {parent or 'the roots'}",
        fields=_fields(params, before, parent, effects),
    )


def _fields(
    params: MoveParams, before: str | None, parent: str | None, effects: Consequences
) -> dict[str, object]:
    fields: dict[str, object] = {"from": before, "to": parent, "lost": list(effects.lost)}
    if params.no_restart:
        fields["no_restart"] = True
    if params.when_idle is not None:
        fields["when_idle"] = params.when_idle
    return fields


def _check_options(call: Call, params: MoveParams) -> None:
    if params.no_restart and not call.by_operator:
        raise NotAllowed(
            f"cannot move {params.agent} without restarts: only the operator may leave access open"
        )
    if params.no_restart and params.when_idle is not None:
        raise InvalidArgument("cannot be combined with no_restart", field="when_idle")


def _result(call: Call, params: MoveParams, effects: Consequences, job: str | None) -> Moved:
    crossing, losing = (
        running_agents(call, call.hive, agents) for agents in (effects.crossing, effects.losing)
    )
    left = losing if params.no_restart else []
    restarts = [*crossing, *(name for name in losing if name not in left)]
    return Moved(
        agent=params.agent,
        parent=params.parent or None,
        live=not restarts,
        crossing=crossing,
        restarts=restarts,
        left=left,
        gaining=list(effects.gaining),
        revoked=None,
        job=job,
    )


def _tell_family(call: Call, hive: Hive, agent: str, parent: str | None) -> None:
    """Notify the moved agent and its new parent.

    The environment of a running agent cannot change.
    """
    home = "you are a root now" if parent is None else f"your parent is {parent} now"
    send_notice(call, hive, agent, MOVED, f"you were moved: {home}")
    if parent is not None and parent != call.caller:
        send_notice(call, hive, parent, MOVED, f"{agent} is your child now")
