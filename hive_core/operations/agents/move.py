"""Another parent for an agent and everything below it."""

from __future__ import annotations

from pydantic import Field

from hive_core.broker.call import Call, Change
from hive_core.broker.operation import Result, operation
from hive_core.errors import InvalidArgument, NotAllowed
from hive_core.model.agents.hive import Hive
from hive_core.operations.agents.revocation import (
    RevocationOptions,
    running_agents,
    start_revocation,
)
from hive_core.operations.budgets.run_time import rebill_move
from hive_core.operations.fields import Agent, WaitParams
from hive_core.operations.host.jobs import create_job
from hive_core.operations.notices import MOVED, tell
from hive_core.operations.tasks.lifecycle_hooks import given_on
from hive_core.plan.move_effects import Consequences, consequences
from hive_core.policy.grants import check_move
from hive_core.policy.rules import MOVE

IDLE_MOST = 86_400.0


class MoveParams(WaitParams):
    agent: Agent = Field(description="The agent; what is below it moves along.")
    parent: Agent = Field(description="Its new parent; empty makes it a root.")
    when_idle: float | None = Field(
        None, ge=0, le=IDLE_MOST,
        description="Seconds that those who lose access have at most to finish what they do, before"
        " they are restarted; absent: at once.",
    )  # fmt: skip
    no_restart: bool = Field(
        default=False,
        description="Leave those who lose access running, with whatever they hold open; for the"
        " operator only.",
    )
    dry_run: bool = Field(default=False, description="Only say what would follow.")


class Moved(Result):
    agent: str = Field(description="The agent.")
    parent: str | None = Field(description="Its parent after the move; null for a root.")
    live: bool = Field(description="Nothing has to be restarted.")
    crossing: list[str] = Field(
        description="Restarted, because they leave or enter a subtree that carries limits."
    )
    restarts: list[str] = Field(
        description="All that are restarted: those crossing, and those who were above the agent and"
        " are not any more, with all below them that do not move along."
    )
    left: list[str] = Field(
        description="Who would be restarted but for `no_restart`, and may still hold files of the"
        " agent; `status` tells until they were."
    )
    gaining: list[str] = Field(description="Who gain access to the agent's files.")
    revoked: float | None = Field(
        description="When access was really gone, in seconds since 1970; null where nobody lost"
        " any, and where the answer did not wait for it."
    )
    job: str | None = Field(
        description="Ends when access is really gone and who was restarted is up again; null when"
        " nothing was done."
    )


@operation(action="move", allow=MOVE, target="agent", second="parent")
def move(call: Call, params: MoveParams) -> Change[Moved] | Moved:
    """Hang an agent, with everything below it, under another parent.

    From the commit on decisions use the new tree; files and views follow at once, in running
    containers too. The moved agents go on running, but for those that cross the border of a subtree
    that carries limits. Who was above the agent and is not any more is restarted, with all below it
    that does not move along: nothing else ends what they may hold open. `dry_run` says who.
    """
    _check_options(call, params)
    parent = params.parent or None
    uuid = call.hive.spec(params.agent).id
    before = call.hive.topology.parent(params.agent)
    check_move(call.hive, call.caller, params.agent, parent)
    hive = call.hive.with_parent(params.agent, parent)
    what = consequences(call.hive, hive, params.agent)
    if params.dry_run or parent == before:
        return _result(call, params, what, None)
    job = create_job(call, "move", {uuid: "moved"})
    if what.lost:
        latest = None if params.when_idle is None else call.now + params.when_idle
        how = RevocationOptions(job, restart=not params.no_restart, latest=latest)
        start_revocation(call, hive, params.agent, what.lost, how)
    told = _tell_family(call, hive, params.agent, parent) | given_on(call, hive, params.agent)
    return Change(
        _result(call, params, what, job),
        hive,
        f"move {params.agent} from {before or 'the roots'} to {parent or 'the roots'}",
        wakes=told | rebill_move(call, hive, params.agent),
        fields=_fields(params, before, parent, what),
    )


def _fields(
    params: MoveParams, before: str | None, parent: str | None, what: Consequences
) -> dict[str, object]:
    found: dict[str, object] = {"from": before, "to": parent, "lost": list(what.lost)}
    if params.no_restart:
        found["no_restart"] = True
    if params.when_idle is not None:
        found["when_idle"] = params.when_idle
    return found


def _check_options(call: Call, params: MoveParams) -> None:
    if params.no_restart and not call.by_operator:
        raise NotAllowed(
            f"cannot move {params.agent} without restarts: only the operator may leave access open"
        )
    if params.no_restart and params.when_idle is not None:
        raise InvalidArgument("no_restart leaves nobody to wait for", field="when_idle")


def _result(call: Call, params: MoveParams, what: Consequences, job: str | None) -> Moved:
    crossing, losing = (
        running_agents(call, call.hive, each) for each in (what.crossing, what.losing)
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
        gaining=list(what.gaining),
        revoked=None,
        job=job,
    )


def _tell_family(call: Call, hive: Hive, agent: str, parent: str | None) -> frozenset[str]:
    """The moved agent and its new parent; the environment of what runs cannot change."""
    home = "you are a root now" if parent is None else f"your parent is {parent} now"
    topics = tell(call, hive, agent, MOVED, f"you were moved: {home}")
    if parent is not None and parent != call.caller:
        topics |= tell(call, hive, parent, MOVED, f"{agent} is your child now")
    return frozenset(topics)
